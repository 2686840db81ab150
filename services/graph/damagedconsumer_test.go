package graph_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/processor"
)

// A power loss damages the files that a NATS server has of consumers, which it does not sync.
// The server then refuses to create these consumers. It also takes a stream back to its
// beginning whose messages were all removed, but not its consumers, which then leave out new
// messages. Or it forgets a stream, and gives a consumer that is created in a new one of this name what
// the earlier one had delivered, also if that is nothing since it was created itself, and if the graph service that
// created it was killed before it looked. The work and the calls get their streams or consumers again.
func TestDamagedConsumers(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(tb testing.TB, dir string){
		"consumers": damageConsumers, "messages": removeMessages,
		"streams": damageStreams, "streams, idle": damageStreams, "streams, interrupted": damageStreams,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			natsDir, dir := t.TempDir(), t.TempDir()
			n, restart := external(t, natsDir)
			s := serve(t, n.dial(n.Server.URL()), dir, nil).writing()
			c := client.New(testkit.Dial(t, n.Server, n.Server.URL(), bus.RoleApplication), client.WithActor(bus.RoleApplication), client.WithTimeout(testkit.Timeout)).Resource(configMaps, "a")
			js, err := jetstream.New(testkit.Dial(t, n.Server, n.Server.URL(), bus.RoleGraph))
			must.Succeed(t, err)
			calls := bus.FinalizerConsumer(realm, bus.ExampleFinalizer)
			run := func() (end func()) {
				p, err := processor.New(processor.Config{Conn: testkit.Dial(t, n.Server, n.Server.URL(), bus.RoleProcessor)})
				must.Succeed(t, err)
				finalizer := client.New(testkit.Dial(t, n.Server, n.Server.URL(), bus.RoleFinalizer), client.WithActor(bus.RoleFinalizer))
				ctx, stop := context.WithCancel(ctx)
				ended := make(chan error, 2)
				go func() { ended <- p.Run(ctx) }()
				go func() {
					ended <- finalizer.RunFinalizer(ctx, bus.ExampleFinalizer, func(context.Context, *client.Call) error { return nil })
				}()
				// If the request for this consumer has the stream created again, a call that was there is
				// lost until the scanner has it published again, and no scanner runs here.
				testkit.WaitFor(t, ctx, "the consumer of calls", func() bool {
					ctx, cancel := testkit.Attempt(ctx)
					defer cancel()
					_, err := js.Consumer(ctx, bus.FinalizeStream(realm), calls.Durable)
					return err == nil
				})
				return func() {
					stop()
					for range 2 {
						if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					}
				}
			}
			// cascade deletes an owner, and waits until its dependent, which has a finalizer, is gone.
			cascade := func() {
				t.Helper()
				owner, err := c.Create(ctx, configMap("owner"))
				must.Succeed(t, err)
				dependent := configMap("dependent")
				dependent.Metadata.OwnerReferences = []*client.OwnerReference{client.NewOwnerReference(owner)}
				dependent.Metadata.Finalizers = []string{bus.ExampleFinalizer}
				if _, err := c.Create(ctx, dependent); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Delete(ctx, "owner"); err != nil {
					t.Fatal(err)
				}
				testkit.WaitFor(t, ctx, "the dependent to be gone", func() bool {
					_, err := c.Get(ctx, "dependent")
					return errors.Is(err, client.ErrNotFound)
				})
			}
			end := run()
			cascade()
			end()
			if name == "streams, idle" {
				must.Succeed(t, js.DeleteConsumer(ctx, bus.FinalizeStream(realm), calls.Durable))
				end = run()
				end()
			}
			s.Stop()
			restart(func() { damage(t, filepath.Join(natsDir, "jetstream")) })
			s = serve(t, n.dial(n.Server.URL()), dir, nil).writing()
			if strings.HasPrefix(name, "streams") { // a call is there before its consumer
				early := configMap("early")
				early.Metadata.Finalizers = []string{bus.ExampleFinalizer}
				if _, err := c.Create(ctx, early); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Delete(ctx, "early"); err != nil {
					t.Fatal(err)
				}
				testkit.WaitFor(t, ctx, "the call", func() bool {
					ctx, cancel := testkit.Attempt(ctx)
					defer cancel()
					stream, err := js.Stream(ctx, bus.FinalizeStream(realm))
					return err == nil && stream.CachedInfo().State.Msgs > 0
				})
			}
			if name == "streams, interrupted" {
				if _, err := js.CreateConsumer(ctx, bus.FinalizeStream(realm), calls); err != nil {
					t.Fatal(err)
				}
			}
			end = run()
			cascade()
			testkit.WaitFor(t, ctx, "what was deleted before to be gone", func() bool {
				_, err := c.Get(ctx, "early")
				return errors.Is(err, client.ErrNotFound)
			})
			end()
			s.Stop()
		})
	}
}

// damageConsumers damages the state of all consumers, and what the server knows of them.
func damageConsumers(tb testing.TB, dir string) {
	tb.Helper()
	for name, keep := range map[string]int{"o.dat": 3, "meta.inf": 0} {
		files, err := filepath.Glob(filepath.Join(dir, "*", "streams", "*", "obs", "*", name))
		if err != nil || len(files) < 2 {
			tb.Fatalf("%d files of consumers: %v", len(files), err)
		}
		for _, f := range files {
			must.Succeed(tb, os.Truncate(f, int64(keep)))
		}
	}
}

// damageStreams damages what the server knows of the streams with consumers, and removes their messages.
func damageStreams(tb testing.TB, dir string) {
	tb.Helper()
	removeMessages(tb, dir)
	for _, stream := range []string{bus.WorkStream(realm), bus.FinalizeStream(realm)} {
		files, err := filepath.Glob(filepath.Join(dir, "*", "streams", stream, "meta.sum"))
		if err != nil || len(files) != 1 {
			tb.Fatalf("%d files of %s: %v", len(files), stream, err)
		}
		must.Succeed(tb, os.Truncate(files[0], 0))
	}
}

// removeMessages removes all messages, and the sequence, of the streams with consumers.
func removeMessages(tb testing.TB, dir string) {
	tb.Helper()
	for _, stream := range []string{bus.WorkStream(realm), bus.FinalizeStream(realm)} {
		files, err := filepath.Glob(filepath.Join(dir, "*", "streams", stream, "msgs", "*"))
		if err != nil || len(files) == 0 {
			tb.Fatalf("%d files of %s: %v", len(files), stream, err)
		}
		for _, f := range files {
			must.Succeed(tb, os.Remove(f))
		}
	}
}
