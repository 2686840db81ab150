package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/worker"
)

// When the worker is to end, running handlers may finish for some time. Then their
// messages are returned to the queue.
func TestEnd(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"in time": testkit.Timeout, "not in time": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newQueue(t)
			b.ackWait = testkit.Timeout // a message is delivered again only if it was returned
			b.publish(1)
			begun, finish := make(chan struct{}), make(chan struct{})
			c := b.config(func(ctx context.Context, _ *worker.Message) error {
				close(begun)
				select {
				case <-finish:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			c.Grace = grace
			w := b.run(c)
			testkit.Receive(t, b.Ctx, "the message", begun)
			w.Cancel()
			if name == "in time" {
				close(finish)
			}
			w.Stop()
			if name == "in time" {
				b.waitForEnd()
				return
			}
			b.redelivered()
		})
	}
}

// redelivered waits until another worker has the message that one has given up.
func (b *queue) redelivered() {
	b.Helper()
	again := make(chan string, 1)
	b.run(b.config(func(_ context.Context, m *worker.Message) error {
		again <- number(m)
		return nil
	}))
	testkit.Receive(b, b.Ctx, "the message, by another", again)
}

// Messages of a worker that died are delivered to another one.
func TestDeath(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	b.publish(4)
	other := b.Conn(bus.RoleFinalizer)
	var busy atomic.Int32
	dying := b.config(func(ctx context.Context, _ *worker.Message) error {
		busy.Add(1)
		<-ctx.Done()
		return ctx.Err()
	})
	dying.Conn, dying.Concurrency, dying.Grace = other, 2, time.Millisecond
	b.run(dying)
	b.WaitFor("messages to be taken", func() bool { return busy.Load() == 2 })
	other.Close()
	var redelivered, done atomic.Int32
	c := b.config(func(context.Context, *worker.Message) error { return nil })
	c.Observe = func(o worker.Outcome) {
		if o.Redelivered {
			redelivered.Add(1)
		}
		done.Add(1)
	}
	b.run(c)
	b.WaitFor("all messages", func() bool { return done.Load() >= 4 }) // more on a busy machine
	b.waitForEnd()
	if n := redelivered.Load(); n < 2 || n > 8 {
		t.Errorf("%d were delivered again", n)
	}
}

// If the peer is not available, running handlers are canceled at once, and their messages
// are returned to the queue.
func TestPeerGone(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	b.ackWait = testkit.Timeout // a message is delivered again only if it was returned
	b.publish(1)
	begun := make(chan struct{})
	c := b.config(func(ctx context.Context, _ *worker.Message) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	c.Grace = time.Hour
	asked := 0
	c.Peer = func(context.Context) bool {
		asked++
		return asked < 3 // it is there for a while
	}
	w := b.run(c)
	testkit.Receive(t, b.Ctx, "the message", begun)
	w.Stop()
	if asked != 3 {
		t.Errorf("the peer was asked for %d times", asked)
	}
	b.redelivered()
}

// While the peer is available, running handlers finish.
func TestPeerThere(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	b.ackWait = testkit.Timeout // a message is delivered again only if it was returned
	b.publish(1)
	begun, finish := make(chan struct{}), make(chan struct{})
	c := b.config(func(ctx context.Context, _ *worker.Message) error {
		close(begun)
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	c.Grace = time.Hour
	asked := 0
	c.Peer = func(context.Context) bool {
		if asked++; asked == 3 {
			close(finish)
		}
		return true
	}
	w := b.run(c)
	testkit.Receive(t, b.Ctx, "the message", begun)
	w.Stop()
	b.waitForEnd()
}
