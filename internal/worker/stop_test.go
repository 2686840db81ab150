package worker_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/worker"
)

// A worker that has stopped leaves no pull request behind, which would take a message that nothing
// receives. It runs on a cluster whose actors have accounts, and is not connected to the server that leads the
// consumer: that server does not learn that a client has unsubscribed.
func TestStopOnCluster(t *testing.T) {
	t.Parallel()
	b := newClusterBench(t)
	if _, err := b.ensure(b.ctx); err != nil {
		t.Fatal(err)
	}
	leader := b.info().Cluster.Leader
	for i, s := range b.servers {
		if fmt.Sprint("n", i+1) != leader {
			b.server = s
		}
	}
	c := b.config(func(context.Context, *worker.Message) error { return nil })
	stop := b.run(c)
	testkit.WaitFor(t, b.ctx, "a pull request", func() bool { return b.info().NumWaiting == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
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
	b := newBench(t).streams()
	b.ackWait = testkit.Timeout // a message is delivered again only if it was returned
	if _, err := b.ensure(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.returned()
}

// returned stops a worker while a message is on its connection, and waits until another has it.
func (b *bench) returned() {
	b.t.Helper()
	proxy := testkit.NewProxy(b.t, b.server.URL())
	c := b.config(func(context.Context, *worker.Message) error {
		b.t.Error("a message is handled after the worker was stopped")
		return nil
	})
	c.Conn = testkit.Dial(b.t, b.server, proxy.URL(), bus.RoleFinalizer)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, c) }()
	testkit.WaitFor(b.t, b.ctx, "a pull request", func() bool { return b.info().NumWaiting == 1 })
	proxy.Set(testkit.ToClient, testkit.Hold)
	b.publish(1)
	testkit.WaitFor(b.t, b.ctx, "the message to be delivered", func() bool { return b.info().NumAckPending == 1 && proxy.Held(testkit.ToClient) > 0 })
	cancel()
	proxy.Set(testkit.ToClient, testkit.Pass)
	if err := testkit.Receive(b.t, b.ctx, "the end", ended); err != nil {
		b.t.Fatal(err)
	}
	c.Conn.Close() // as a process does that ends
	b.delivered(2)
}

// delivered waits until another worker has a message, which is delivered for the n-th time, and the
// consumer has no other.
func (b *bench) delivered(n uint64) {
	b.t.Helper()
	got := make(chan uint64, 10)
	stop := b.run(b.config(func(_ context.Context, m *worker.Message) error {
		got <- m.Delivered
		return nil
	}))
	if is := testkit.Receive(b.t, b.ctx, "the message", got); is != n {
		b.t.Errorf("the message was delivered %d times, want %d", is, n)
	}
	b.waitForEnd()
	if err := stop(); err != nil {
		b.t.Fatal(err)
	}
}

// newClusterBench is newBench on a cluster of three servers, whose actors have accounts.
func newClusterBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, ctx: testkit.Context(t), ackWait: testkit.Timeout}
	var err error
	b.servers, err = natsd.StartCluster(natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(realm), Accounts: true, Logf: t.Logf}, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := natsd.ShutdownAll(b.servers); err != nil {
			t.Error(err)
		}
	})
	b.server = b.servers[0]
	b.js = testkit.JetStream(t, b.server, bus.RoleGraph)
	testkit.WaitFor(t, b.ctx, "the streams", func() bool {
		ctx, cancel := testkit.Attempt(b.ctx)
		defer cancel()
		return bus.EnsureStreams(ctx, b.js, realm, len(b.servers)) == nil
	})
	return b
}
