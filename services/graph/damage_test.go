package graph_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// damage changes each file of a state whose name has a part. It fails if there is none.
func damage(t *testing.T, dir, part string, change func(name string, b []byte) []byte) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, realm))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range entries {
		if !strings.Contains(e.Name(), part) {
			continue
		}
		found = true
		name := filepath.Join(dir, realm, e.Name())
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if b = change(name, b); b == nil {
			err = os.Remove(name)
		} else {
			err = os.WriteFile(name, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatalf("the state has no file %s", part)
	}
}

var (
	missing = func(string, []byte) []byte { return nil }
	cut     = func(_ string, b []byte) []byte { return b[:len(b)/2] }
	empty   = func(string, []byte) []byte { return []byte{} }
	flipped = func(_ string, b []byte) []byte {
		for i := 0; i < len(b); i += 500 {
			b[i] ^= 4
		}
		return b
	}
)

// large returns an object whose body is in a file of bodies.
func largeObject(name string, r *rand.Rand) (text string) {
	b := make([]byte, 2000)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return name + string(b)
}

// A state of which files are missing, cut or changed is rebuilt from the log, at the start
// or when the damage is read. The service goes on, never shows a wrong object, and
// reports that it has rebuilt the state.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, part string
		change     func(name string, b []byte) []byte
	}{
		{"table missing", ".sst", missing},
		{"table cut", ".sst", cut},
		{"table flipped", ".sst", flipped},
		{"bodies missing", ".blob", missing},
		{"bodies cut", ".blob", cut},
		{"bodies empty", ".blob", empty},
		{"bodies flipped", ".blob", flipped},
		{"manifest empty", "MANIFEST", empty},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			server, dir := t.TempDir(), t.TempDir()
			texts := map[string]string{}
			random := rand.New(rand.NewPCG(28, 12))
			run(t, server, dir, func(n *natsd.Server) {
				for i := range 30 {
					o := configMap(fmt.Sprintf("o-%02d", i))
					texts[o.GetMetadata().GetName()] = largeObject("x", random)
					o.Spec = []byte(`"` + texts[o.GetMetadata().GetName()] + `"`)
					if _, err := application(t, n).Resource(configMaps, "a").Create(ctx, o); err != nil {
						t.Fatal(err)
					}
				}
			})
			damage(t, dir, c.part, c.change)
			n := testkit.StartNATS(t, natsd.Config{Dir: server})
			registry := prometheus.NewRegistry()
			s := serve(t, graphConn(t, n), dir, func(c *graph.Config) { c.Registry = registry }).writing(ctx)
			app := application(t, n)
			testkit.WaitFor(t, ctx, "all objects", func() bool {
				if err := readAll(ctx, app, texts); err != nil {
					t.Log(err)
					return false
				}
				return true
			})
			if d := verify(ctx, t, n).GetDifference(); d != "" {
				t.Errorf("the state differs from the log: %s", d)
			}
			if got := counted(t, registry, "coppice_graph_state_rebuilds_total"); got != 1 {
				t.Errorf("the metric counts %v rebuilds", got)
			}
			operator := client.New(testkit.Conn(t, n, bus.RoleOperator), client.WithActor(bus.RoleOperator), client.WithRealm(realm))
			testkit.WaitFor(t, ctx, "a warning of the rebuild", func() bool {
				warnings, err := operator.Warnings(ctx, "")
				if err != nil {
					t.Fatal(err)
				}
				return slices.ContainsFunc(warnings, func(w client.Warning) bool { return w.Reason == "StateRebuilt" })
			})
			s.stop(ctx)
			serve(t, graphConn(t, n), dir, nil).writing(ctx).stop(ctx) // without another rebuild
			opened, err := state.Open(filepath.Join(dir, realm), state.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// readAll reads objects one by one. It returns an error if one cannot be read now, and
// panics if one is wrong.
func readAll(ctx context.Context, c *client.Client, texts map[string]string) error {
	for name, text := range texts {
		o, err := c.Resource(configMaps, "a").Get(ctx, name)
		if err != nil {
			return err
		}
		if string(o.GetSpec()) != `"`+text+`"` {
			panic("wrong object: " + name)
		}
	}
	return nil
}

// counted returns the value of a counter.
func counted(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
