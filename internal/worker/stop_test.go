package worker_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/worker"
)

// A worker that has stopped leaves no pull request behind, which would take a message that nothing
// receives. It runs on a cluster whose actors have accounts, and is not connected to the server that leads the
// consumer: that server does not learn that a client has unsubscribed.
func TestStopOnCluster(t *testing.T) {
	t.Parallel()
	b, servers := newClusterQueue(t)
	if _, err := b.ensure(b.Ctx); err != nil {
		t.Fatal(err)
	}
	leader := b.info().Cluster.Leader
	for i, s := range servers {
		if fmt.Sprint("n", i+1) != leader {
			b.Server = s
		}
	}
	c := b.config(func(context.Context, *worker.Message) error { return nil })
	w := b.run(c)
	b.WaitFor("a pull request", func() bool { return b.info().NumWaiting == 1 })
	w.Stop()
	c.Conn.Close()
	if n := b.info().NumWaiting; n != 0 {
		t.Errorf("%d pull requests are left", n)
	}
	b.publish(1)
	b.delivered(1)
	b.returned()
}

// A worker that stops returns a message that NATS has delivered, and that it has not read yet.
func TestStopReturns(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	b.ackWait = testkit.Timeout // a message is delivered again only if it was returned
	if _, err := b.ensure(b.Ctx); err != nil {
		t.Fatal(err)
	}
	b.returned()
}

// returned stops a worker while a message is on its connection, and waits until another has it.
func (b *queue) returned() {
	b.Helper()
	proxy := testkit.NewProxy(b, b.Server.URL())
	c := b.config(func(context.Context, *worker.Message) error {
		b.Error("a message is handled after the worker was stopped")
		return nil
	})
	c.Conn = testkit.Dial(b, b.Server, proxy.URL(), bus.RoleFinalizer)
	w := b.run(c)
	b.WaitFor("a pull request", func() bool { return b.info().NumWaiting == 1 })
	proxy.Set(testkit.ToClient, testkit.Hold)
	b.publish(1)
	b.WaitFor("the message to be delivered", func() bool { return b.info().NumAckPending == 1 && proxy.Held(testkit.ToClient) > 0 })
	w.Cancel()
	proxy.Set(testkit.ToClient, testkit.Pass)
	w.Stop()
	c.Conn.Close() // as a process does that ends
	b.delivered(2)
}

// delivered waits until another worker has a message, which is delivered for the n-th time, and the
// consumer has no other.
func (b *queue) delivered(n uint64) {
	b.Helper()
	got := make(chan uint64, 10)
	w := b.run(b.config(func(_ context.Context, m *worker.Message) error {
		got <- m.Delivered
		return nil
	}))
	if is := testkit.Receive(b, b.Ctx, "the message", got); is != n {
		b.Errorf("the message was delivered %d times, want %d", is, n)
	}
	b.waitForEnd()
	w.Stop()
}

// newClusterQueue is newQueue on a cluster of three servers, whose actors have accounts.
func newClusterQueue(t *testing.T) (b *queue, servers []*natsd.Server) {
	t.Helper()
	servers, err := natsd.StartCluster(natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(realm), Accounts: true, Logf: t.Logf}, 3)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := natsd.ShutdownAll(servers); err != nil {
			t.Error(err)
		}
	})
	b = &queue{testkit.NewRealmOn(t, servers[0]), testkit.Timeout}
	b.WaitFor("the streams", func() bool {
		ctx, cancel := testkit.Attempt(b.Ctx)
		defer cancel()
		return bus.EnsureStreams(ctx, b.JS(), realm, len(servers)) == nil
	})
	return b, servers
}
