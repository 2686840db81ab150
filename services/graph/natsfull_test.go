package graph_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
)

// external starts a NATS server as an operator runs one, which keeps the error when it
// cannot write. restart ends it and starts it again, at the same address; meanwhile is called
// while it does not run.
func external(tb testing.TB, dir string) (n *installation, restart func(meanwhile ...func())) {
	tb.Helper()
	c := natsd.Config{Dir: dir, Port: testkit.FreePorts(tb, 1)[0], Passwords: map[string]string{}}
	for _, r := range bus.Roles(realm) {
		c.Passwords[r.Name] = "password-of-" + r.Name
	}
	n = installationOn(tb, c)
	return n, func(meanwhile ...func()) {
		tb.Helper()
		n.shutdown()
		for _, do := range meanwhile {
			do()
		}
		testkit.StartNATS(tb, c)
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
			s := serve(t, n.dial(n.Server.URL()), t.TempDir(), func(c *graph.Config) {
				if idle {
					c.LeaseTTL = time.Second // it is lost soon, and then tried for
				}
			}).writing()
			c := client.New(testkit.Dial(t, n.Server, n.Server.URL(), bus.RoleApplication), client.WithActor(bus.RoleApplication), client.WithTimeout(time.Second))
			var names []string
			attempt := 0
			try := func(within time.Duration) error {
				short, cancel := context.WithTimeout(ctx, within)
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
			const brief = 500 * time.Millisecond // where a command is not to be acknowledged
			if err := try(testkit.Timeout); err != nil {
				t.Fatalf("a first command: %v", err)
			}
			free := disk.Fill()
			want := "has not stored its lease"
			if !idle {
				want = "an append to its log has been waiting"
				testkit.WaitFor(t, ctx, "a command that is not acknowledged", func() bool { return try(brief) != nil })
			}
			full := func() bool {
				err := s.Ready()
				return err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "the disk of NATS is full")
			}
			testkit.WaitFor(t, ctx, "readiness to name the full disk", func() bool {
				if !idle {
					_ = try(brief) // until one does not fit any more
				}
				return full()
			})
			free()
			if err := try(brief); err == nil {
				t.Error("a command was acknowledged before the server was restarted")
			}
			if !full() {
				t.Errorf("with room, before the server was restarted: ready: %v", s.Ready())
			}
			restart()
			begun := time.Now()
			if err := try(testkit.Timeout); err != nil {
				t.Fatalf("a command after the restart: %v", err)
			}
			t.Logf("a command was acknowledged %.1f s after the restart", time.Since(begun).Seconds())
			testkit.WaitFor(t, ctx, "the service to be ready", func() bool { return s.Ready() == nil })
			hasAcknowledged(ctx, t, c, names)
			s.Stop()
		})
	}
}

// hasAcknowledged checks that objects are there. Others may be, whose creation was not
// answered.
func hasAcknowledged(ctx context.Context, tb testing.TB, c *client.Client, names []string) {
	tb.Helper()
	there := map[string]bool{}
	for o, err := range c.Resource(configMaps, "a").List(ctx) {
		must.Succeed(tb, err)
		there[o.GetMetadata().GetName()] = true
	}
	for _, name := range names {
		if !there[name] {
			tb.Errorf("%s was acknowledged, and is not there", name)
		}
	}
}

// A NATS server whose disk is full cannot store a consumer, with the same error as for one whose
// files are damaged. The stream of calls is not created again for that.
func TestFullDiskKeepsCalls(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	disk := testkit.NewDisk(t, 64<<20)
	n, _ := external(t, disk.Dir)
	s := serve(t, n.dial(n.Server.URL()), t.TempDir(), nil).writing()
	js, err := jetstream.New(testkit.Dial(t, n.Server, n.Server.URL(), bus.RoleGraph))
	must.Succeed(t, err)
	created := func() time.Time {
		stream, err := js.Stream(ctx, bus.FinalizeStream(realm))
		must.Succeed(t, err)
		return stream.CachedInfo().Created
	}
	before := created()
	free := disk.Fill()
	failures := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(lines(failures), nil))
	c := client.New(testkit.Dial(t, n.Server, n.Server.URL(), bus.RoleFinalizer), client.WithActor(bus.RoleFinalizer), client.WithTimeout(time.Second))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- c.RunFinalizer(running, bus.ExampleFinalizer, func(context.Context, *client.Call) error { return nil }, client.WithLogger(log))
	}()
	t.Log(testkit.Receive(t, ctx, "the consumer not to be created on a full disk", failures))
	stop()
	if err := testkit.Receive(t, ctx, "the end of RunFinalizer", ended); err != nil {
		t.Error(err)
	}
	free()
	if after := created(); !after.Equal(before) {
		t.Errorf("the stream of calls, created at %s, was created again at %s", before, after)
	}
	s.Stop()
}

// lines sends what is written to a channel, and drops it if the channel is full.
type lines chan<- string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}
