package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/worker"
)

// Workers that share a durable consumer must agree on it; who does not is told
// who made it, and why it cannot work.
func TestConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t).streams()
	if _, err := b.js.CreateConsumer(b.ctx, bus.FinalizeStream(realm), *consumerConfig()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*jetstream.ConsumerConfig){
		"ack wait":        func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour },
		"max ack pending": func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 },
		"max deliver":     func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 },
		"filter":          func(c *jetstream.ConsumerConfig) { c.FilterSubject = subject(0) },
	} {
		c := b.config(nil)
		change(c.Create)
		err := worker.Run(b.ctx, c)
		var conflict *worker.ConflictError
		if !errors.As(err, &conflict) || !strings.Contains(conflict.What, name) || conflict.Holder != "the test" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A worker may be there before stream and consumer are, and outlives the
// consumer.
func TestWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	done := make(chan string, 10)
	var open atomic.Bool
	c := b.config(func(_ context.Context, m jetstream.Msg) error {
		done <- number(m)
		return nil
	})
	c.Opened = func(is bool) { open.Store(is) }
	create := *c.Create
	c.Create = nil // somebody else makes it
	b.run(c)
	b.streams()
	if open.Load() {
		t.Error("open without a consumer")
	}
	for range 2 {
		if _, err := b.js.CreateConsumer(b.ctx, bus.FinalizeStream(realm), create); err != nil {
			t.Fatal(err)
		}
		b.publish(1)
		testkit.Receive(t, b.ctx, "the message", done)
		b.waitForEnd()
		testkit.WaitFor(t, b.ctx, "open", open.Load)
		if err := b.js.DeleteConsumer(b.ctx, bus.FinalizeStream(realm), durable); err != nil {
			t.Fatal(err)
		}
		testkit.WaitFor(t, b.ctx, "the loss to be noticed", func() bool { return !open.Load() })
	}
}
