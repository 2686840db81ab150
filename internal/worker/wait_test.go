package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/worker"
)

// If the worker may not use its consumer, Run fails. If the consumer does not exist yet,
// Run waits for it.
func TestRefusedConsumer(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	for _, reason := range []lifecycle.Reason{api.ErrConflict, api.ErrBadRequest} {
		c := b.config(nil)
		attempts, said := 0, 0
		c.Waiting = func(error) { said++ }
		c.Ensure = func(context.Context) (time.Duration, error) {
			if attempts++; attempts < 3 {
				return 0, &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "no graph service is ready"}
			}
			return 0, &lifecycle.Error{Reason: reason}
		}
		var refusal *lifecycle.Error
		if err := worker.Run(b.Ctx, c); !errors.As(err, &refusal) || refusal.Reason != reason || attempts != 3 || said != 1 {
			t.Errorf("%s: got %v after %d attempts; reported %d times what it waits for", reason, err, attempts, said)
		}
	}
}

// A worker may start before its stream and consumer exist, and continues if the consumer
// is created again.
func TestWaits(t *testing.T) {
	t.Parallel()
	b := &queue{testkit.NewRealm(t), ackWait}
	done := make(chan string, 10)
	var open atomic.Bool
	c := b.config(func(_ context.Context, m *worker.Message) error {
		done <- number(m)
		return nil
	})
	c.Opened = func(is bool) { open.Store(is) }
	c.Ensure, c.AckWait = nil, b.ackWait // the graph service creates it
	b.run(c)
	b.Streams()
	if open.Load() {
		t.Error("open without a consumer")
	}
	for range 2 {
		if _, err := b.JS().CreateConsumer(b.Ctx, bus.FinalizeStream(realm), *b.consumerConfig()); err != nil {
			t.Fatal(err)
		}
		b.publish(1)
		testkit.Receive(t, b.Ctx, "the message", done)
		b.waitForEnd()
		b.WaitFor("open", open.Load)
		must.Succeed(t, b.JS().DeleteConsumer(b.Ctx, bus.FinalizeStream(realm), durable))
		b.WaitFor("the loss to be noticed", func() bool { return !open.Load() })
	}
}
