package graph

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/consumers"
)

// B7.3: a call that was delivered to a program counts while the program runs, and not when it is
// silent for long.
func TestCallOfProgramThatIsGone(t *testing.T) {
	t.Parallel()
	server, ctx := testkit.NATS(t), testkit.Context(t)
	js := testkit.JetStream(t, server, bus.RoleGraph)
	must.Succeed(t, bus.EnsureStreams(ctx, js, bus.DefaultRealm, 1))
	var ahead atomic.Int64
	observer := consumers.New(js, bus.DefaultRealm, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	s := callStream{js: js, realm: bus.DefaultRealm, consumers: observer, now: time.Now}
	consumer, err := js.CreateConsumer(ctx, bus.FinalizeStream(bus.DefaultRealm), bus.FinalizerConsumer(bus.DefaultRealm, bus.ExampleFinalizer))
	must.Succeed(t, err)
	call := bus.Finalize{Realm: bus.DefaultRealm, Plural: "pods", UID: "some-uid", Finalizer: bus.ExampleFinalizer}
	if _, err := js.Publish(ctx, call.Subject(), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(jetstream.FetchMaxWait(testkit.Timeout)); err != nil {
		t.Fatal(err)
	}
	if is, err := s.State(ctx, call); err != nil || !is.Live || is.Working == 0 {
		t.Errorf("the program has taken the call: %+v, %v", is, err)
	}
	ahead.Store(int64(2 * max(consumers.LiveFor, bus.CallAckWait)))
	if is, err := s.State(ctx, call); err != nil || is.Live || is.Working != 0 {
		t.Errorf("the program is gone: %+v, %v", is, err)
	}
}

// What warnings about stuck objects ask NATS for is bounded in number and in time.
func TestStuckCallsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	c := &stuckCalls{now: func() time.Time { return now }}
	for n := range maxStuckCalls {
		if left := c.take(); left != maxStuckTime {
			t.Fatalf("call %d may take %v, want %v", n, left, maxStuckTime)
		}
	}
	if left := c.take(); left > 0 {
		t.Errorf("call %d may take %v, want none", maxStuckCalls, left)
	}
	now = now.Add(stuckWindow)
	if left := c.take(); left != maxStuckTime {
		t.Errorf("in the next window a call may take %v, want %v", left, maxStuckTime)
	}
	c.spend(maxStuckTime)
	if left := c.take(); left > 0 {
		t.Errorf("a call may take %v after all the time was spent, want none", left)
	}
}
