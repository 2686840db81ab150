package api_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/propagator"
)

// CI runs TestQueuedCalls with 100,000, `make calls` with 1,000,000.
var queuedCalls = flag.Int("calls", 2000, "how many calls of a finalizer without a consumer TestQueuedCalls has")

// blocked creates objects with finalizers, and deletes them.
func (r *realm) blocked(namespace string, finalizers []string, count int, body string) {
	r.TB.Helper()
	objects := r.Resource(client.Resource{Plural: "configmaps"}, namespace)
	const batch = 500
	for from := 0; from < count; from += batch {
		var list []*coppicev1.Object
		var names []string
		for i := from; i < min(from+batch, count); i++ {
			name := fmt.Sprintf("o-%d", i)
			o := &coppicev1.Object{
				ApiVersion: "v1", Kind: "ConfigMap",
				Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: namespace, Finalizers: finalizers},
			}
			if body != "" {
				o.Spec = []byte(`{"body":"` + body + `"}`)
			}
			list, names = append(list, o), append(names, name)
		}
		results, err := objects.CreateBatch(r.Ctx, list)
		must.Succeed(r.TB, err)
		for _, result := range results {
			if result.Err != nil {
				r.TB.Fatal(result.Err)
			}
		}
		if _, err := objects.DeleteBatch(r.Ctx, names); err != nil {
			r.TB.Fatal(err)
		}
	}
}

// finalize runs a finalizer until stop is called, and counts its calls.
func (r *realm) finalize(finalizer string) (calls *atomic.Int64, stop func()) {
	r.TB.Helper()
	calls = &atomic.Int64{}
	return calls, testkit.Run(r.TB, func(ctx context.Context) error {
		return r.RunFinalizer(ctx, finalizer, func(context.Context, *client.Call) error {
			calls.Add(1)
			return nil
		})
	}).Stop
}

// emptied waits until a namespace has no config maps.
func (r *realm) emptied(namespace string) {
	r.TB.Helper()
	r.WaitFor("everything in "+namespace+" to be gone", func() bool {
		page, err := r.Resource(client.Resource{Plural: "configmaps"}, namespace).ListPage(r.Ctx, client.Limit(1))
		return err == nil && len(page.Objects) == 0
	})
}

// calls returns the number of calls in the stream.
func (r *realm) calls() jetstream.StreamState {
	r.TB.Helper()
	js, err := jetstream.New(r.Conn()) // a connection for each look would stay open until the end
	must.Succeed(r.TB, err)
	stream, err := js.Stream(r.Ctx, bus.FinalizeStream(bus.DefaultRealm))
	must.Succeed(r.TB, err)
	return stream.CachedInfo().State
}

func limited(limits propagator.Limits) allinone.Config {
	return allinone.Config{Graph: func(g *graph.Config) { g.CallLimits = limits }}
}

// A finalizer without a consumer uses at most its share of the stream, and another
// finalizer continues meanwhile. When the first gets a consumer, it is called for every
// object.
func TestQueuedCalls(t *testing.T) {
	t.Parallel()
	config := limited(propagator.Limits{Calls: 200, Bytes: 16 << 20, IdleCalls: 100, IdleBytes: 16 << 20})
	r := startWith(t, config)

	r.blocked("idle", []string{"example.com/idle"}, *queuedCalls, "")
	r.WaitFor("the share of the idle finalizer to be full", func() bool { return r.calls().Msgs >= 100 })
	called, stopLive := r.finalize("example.com/live")
	r.blocked("live", []string{"example.com/live"}, 1000, "")
	r.emptied("live")
	stopLive()
	if n := called.Load(); n < 1000 {
		t.Errorf("the finalizer with a consumer was called for %d of 1000 objects", n)
	}
	// The stream may not have processed the last acknowledgements of the other finalizer
	// yet.
	r.WaitFor("only the idle finalizer's share of 100 calls to be left", func() bool { return r.calls().Msgs == 100 })

	// With many calls the test only requires that calls which waited as rows are published
	// repeatedly.
	called, stopIdle := r.finalize("example.com/idle")
	want := min(*queuedCalls, 2000)
	for count := 0; count < want; count = min(count+1000, want) { // each part has the time of one wait
		r.WaitFor("calls of the finalizer that has a consumer now", func() bool { return called.Load() >= int64(count) })
	}
	if *queuedCalls == want {
		r.emptied("idle")
	}
	stopIdle()
	if *queuedCalls == want {
		r.WaitFor("no call to wait", func() bool { return r.calls().Msgs == 0 })
	}
}

// An object that another finalizer still blocks does not use up the share of a finalizer
// that has completed for it.
func TestCallsOfTwoFinalizers(t *testing.T) {
	t.Parallel()
	config := limited(propagator.Limits{Calls: 20, Bytes: 16 << 20, IdleCalls: 10, IdleBytes: 16 << 20})
	r := startWith(t, config)
	called, stopFirst := r.finalize("example.com/first")
	r.blocked("two", []string{"example.com/first", "example.com/second"}, 200, "")
	r.WaitFor("the first finalizer to be called for every object", func() bool { return called.Load() >= 200 })
	stopFirst()
	_, stopSecond := r.finalize("example.com/second")
	r.emptied("two")
	stopSecond()
}

// 200 finalizers without a consumer together use at most their share, also with large
// objects.
func TestManyIdleFinalizers(t *testing.T) {
	t.Parallel()
	const share = 4 << 20
	config := limited(propagator.Limits{Calls: 10_000, Bytes: 1 << 20, IdleCalls: 100_000, IdleBytes: share})
	r := startWith(t, config)

	body := strings.Repeat("x", 60<<10)
	for i := range 200 {
		r.blocked(fmt.Sprintf("idle-%d", i), []string{fmt.Sprintf("idle-%d.example.com/f", i)}, 1, body)
	}
	called, stopLive := r.finalize("example.com/live")
	defer stopLive()
	r.blocked("live", []string{"example.com/live"}, 100, body)
	r.emptied("live")
	if n := called.Load(); n < 100 {
		t.Errorf("the finalizer with a consumer was called for %d of 100 objects", n)
	}
	// The stream may not have processed the last acknowledgements of the other finalizer yet.
	r.WaitFor(fmt.Sprintf("about %d bytes of calls without a consumer", share), func() bool {
		n := r.calls().Bytes
		return n >= share/2 && n <= share+1<<20
	})
}

// Calls that no object needs any more are removed from the stream, although no consumer
// exists.
func TestStaleCalls(t *testing.T) {
	t.Parallel()
	r := start(t)
	const count = 150
	r.blocked("stale", []string{"example.com/stale"}, count, "")
	r.WaitFor("the calls to wait", func() bool { return r.calls().Msgs == count })
	objects := r.Resource(client.Resource{Plural: "configmaps"}, "stale")
	for i := range count - 10 { // the last 10 keep their finalizers
		if _, err := objects.RemoveFinalizer(r.Ctx, fmt.Sprintf("o-%d", i), "example.com/stale", client.Note("the controller is gone")); err != nil {
			t.Fatal(err)
		}
	}
	// A sweep begins when 100 calls are stale. If there was one before the last finalizer was
	// removed, fewer may be left.
	r.WaitFor("stale calls to be removed", func() bool { return r.calls().Msgs < 10+100 })
}
