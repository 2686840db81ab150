package graph_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// external starts a NATS server as an operator runs one, which keeps the error when it
// cannot write. restart ends it and starts it again, at the same address.
func external(t *testing.T, dir string) (n *natsd.Server, restart func()) {
	t.Helper()
	c := natsd.Config{Dir: dir, Passwords: map[string]string{}}
	for _, r := range bus.Roles(realm) {
		c.Passwords[r.Name] = "password-of-" + r.Name
	}
	n = testkit.StartNATS(t, c)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(n.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	return n, func() {
		t.Helper()
		if err := n.Shutdown(); err != nil {
			t.Fatal(err)
		}
		testkit.StartNATS(t, c)
	}
}

// The disk of an external NATS server is full: the service is not ready and says why,
// also where nothing waits to be appended, and also when there is room again, as the
// server keeps the error. When the server was restarted the service goes on by itself,
// with all that was acknowledged.
func TestFullDiskOfNATS(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]bool{"while commands come": false, "while nothing comes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			disk := testkit.NewDisk(t, 64<<20)
			n, restart := external(t, disk.Dir)
			s := serve(t, dial(t, n, n.URL()), t.TempDir(), nil).writing(ctx)
			c := client.New(testkit.Dial(t, n, n.URL(), bus.RoleApplication), client.WithActor(bus.RoleApplication), client.WithTimeout(time.Second))
			var names []string
			attempt := 0
			try := func() error {
				short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				o := configMap(fmt.Sprintf("o-%04d", attempt))
				o.Spec = []byte(`"` + strings.Repeat("x", 4000) + `"`)
				attempt++
				_, err := c.Resource(configMaps, "a").Create(short, o)
				if err == nil {
					names = append(names, o.GetMetadata().GetName())
				}
				return err
			}
			testkit.WaitFor(t, ctx, "a first command", func() bool { return try() == nil })
			free := disk.Fill()
			want := "has not stored its lease"
			if !idle {
				want = "an append to its log has been waiting"
				testkit.WaitFor(t, ctx, "a command that is not acknowledged", func() bool { return try() != nil })
			}
			full := func() bool {
				err := s.Ready()
				return err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "the disk of NATS is full")
			}
			testkit.WaitFor(t, ctx, "readiness to name the full disk", full)
			free()
			if err := try(); err == nil {
				t.Error("a command was acknowledged before the server was restarted")
			}
			if !full() {
				t.Errorf("with room, before the server was restarted: ready: %v", s.Ready())
			}
			restart()
			begun := time.Now()
			testkit.WaitFor(t, ctx, "a command to be acknowledged", func() bool { return try() == nil })
			t.Logf("a command was acknowledged %.1f s after the restart", time.Since(begun).Seconds())
			testkit.WaitFor(t, ctx, "the service to be ready", func() bool { return s.Ready() == nil })
			hasAcknowledged(ctx, t, c, names)
			s.stop(ctx)
		})
	}
}

// hasAcknowledged checks that objects are there. Others may be, whose creation was not
// answered.
func hasAcknowledged(ctx context.Context, t *testing.T, c *client.Client, names []string) {
	t.Helper()
	there := map[string]bool{}
	for o, err := range c.Resource(configMaps, "a").List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		there[o.GetMetadata().GetName()] = true
	}
	for _, name := range names {
		if !there[name] {
			t.Errorf("%s was acknowledged, and is not there", name)
		}
	}
}
