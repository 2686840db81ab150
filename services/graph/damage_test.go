package graph_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// damage changes each file of a state whose name has a part. It fails if there is none.
func damage(tb testing.TB, dir, part string, change func(name string, b []byte) []byte) {
	tb.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, realm))
	must.Succeed(tb, err)
	found := false
	for _, e := range entries {
		if !strings.Contains(e.Name(), part) {
			continue
		}
		found = true
		name := filepath.Join(dir, realm, e.Name())
		b, err := os.ReadFile(name)
		must.Succeed(tb, err)
		if b = change(name, b); b == nil {
			err = os.Remove(name)
		} else {
			err = os.WriteFile(name, b, 0o600)
		}
		must.Succeed(tb, err)
	}
	if !found {
		tb.Fatalf("the state has no file %s", part)
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
			server, dir := t.TempDir(), t.TempDir()
			texts := map[string]string{}
			random := rand.New(rand.NewPCG(28, 12))
			run(t, server, dir, func(n *installation) {
				for i := range 30 {
					o := configMap(fmt.Sprintf("o-%02d", i))
					texts[o.GetMetadata().GetName()] = largeObject("x", random)
					o.Spec = []byte(`"` + texts[o.GetMetadata().GetName()] + `"`)
					put(n.Ctx, t, n.application(), o)
				}
			})
			damage(t, dir, c.part, c.change)
			n := installationIn(t, server)
			registry := prometheus.NewRegistry()
			s := n.serve(dir, func(c *graph.Config) { c.Registry = registry }).writing()
			app := n.application()
			n.WaitFor("all objects", func() bool {
				if err := readAll(n.Ctx, app, texts); err != nil {
					t.Log(err)
					return false
				}
				return true
			})
			if d := n.verify().GetDifference(); d != "" {
				t.Errorf("the state differs from the log: %s", d)
			}
			if got := metric(t, registry, "coppice_graph_state_rebuilds_total"); got != 1 {
				t.Errorf("the metric counts %v rebuilds", got)
			}
			n.warned("StateRebuilt")
			s.Stop()
			n.serve(dir, nil).writing().Stop() // without another rebuild
			opened, err := state.Open(filepath.Join(dir, realm), state.Config{})
			must.Succeed(t, err)
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
