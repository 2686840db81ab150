package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/worker"
)

// A message whose work takes longer than the consumer's acknowledgement wait is not
// delivered again, because the worker reports progress. Without that it is.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	b.ackWait = 12 * time.Second // a report every 3 s, which a busy machine may delay
	b.publish(1)
	silent, calls := make(chan struct{}), atomic.Int32{}
	b.run(b.config(func(context.Context, *worker.Message) error {
		calls.Add(1)
		<-silent
		return nil
	}))
	b.WaitFor("the message", func() bool { return calls.Load() > 0 })
	other := subject(1)
	if _, err := b.JS().Publish(b.Ctx, other, nil); err != nil {
		t.Fatal(err)
	}
	consumer, err := b.JS().Consumer(b.Ctx, bus.FinalizeStream(realm), durable)
	must.Succeed(t, err)
	for delivery := uint64(1); delivery <= 3; delivery++ {
		m, err := consumer.Next(jetstream.FetchContext(b.Ctx))
		must.Succeed(t, err)
		meta, err := m.Metadata()
		must.Succeed(t, err)
		if m.Subject() != other || meta.NumDelivered != delivery {
			t.Fatalf("delivery %d of %s; want delivery %d of %s", meta.NumDelivered, m.Subject(), delivery, other)
		}
		if delivery == 3 {
			must.Succeed(t, m.Ack())
		}
	}
	close(silent)
	b.waitForEnd()
	if n := calls.Load(); n != 1 {
		t.Errorf("handled %d times", n)
	}
}

// A worker takes no more messages than it handles at the same time. Other workers get the
// next ones, which do not wait behind its running handlers.
func TestNothingWaitsInAWorker(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			t.Parallel()
			b := newQueue(t)
			b.ackWait = testkit.Timeout // nothing is delivered again
			release := make(chan struct{})
			var busy atomic.Int32
			slow := b.config(func(context.Context, *worker.Message) error {
				busy.Add(1)
				<-release
				return nil
			})
			slow.Concurrency = concurrency
			b.run(slow)
			total := 3 * concurrency
			b.publish(total)
			b.WaitFor("the slow worker to be busy", func() bool { return int(busy.Load()) == concurrency })
			done := make(chan string, total)
			var redelivered atomic.Int32
			fast := b.config(func(_ context.Context, m *worker.Message) error {
				done <- number(m)
				return nil
			})
			fast.Observe = func(o worker.Outcome) {
				if o.Redelivered {
					redelivered.Add(1)
				}
			}
			b.run(fast)
			for range total - concurrency {
				testkit.Receive(t, b.Ctx, "a message that the slow worker is not at", done)
			}
			close(release)
			b.waitForEnd()
			if n := redelivered.Load(); n > 0 {
				t.Errorf("%d messages had been with the slow worker", n)
			}
			if n := int(busy.Load()); n != concurrency {
				t.Errorf("the slow worker handled %d messages", n)
			}
		})
	}
}

// A failed message comes again, later and later, for as long as it takes.
func TestRetry(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	b.publish(1)
	var attempts []uint64
	done := make(chan struct{})
	c := b.config(func(_ context.Context, m *worker.Message) error {
		attempts = append(attempts, m.Delivered)
		if len(attempts) < 10 {
			return errors.New("not yet")
		}
		close(done)
		return nil
	})
	c.ParkAfter = 3
	var failed, parked atomic.Int32
	c.Observe = func(o worker.Outcome) {
		if o.Err != nil {
			failed.Add(1)
		}
		if o.Parked {
			parked.Add(1)
		}
	}
	b.run(c)
	testkit.Receive(t, b.Ctx, "the last attempt", done)
	b.waitForEnd()
	if failed.Load() != 9 || parked.Load() != 0 {
		t.Errorf("%d failed, %d parked", failed.Load(), parked.Load())
	}
}
