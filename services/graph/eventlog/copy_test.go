package eventlog_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Messages that a NATS server delivered, and that never arrived, are no damage of its copy: a request
// of a busy reader ends before they come, and the server does not deliver them again.
func TestCopyDeliveredInVain(t *testing.T) {
	t.Parallel()
	const commits = 4
	b := newBench(t)
	for i := range uint64(commits) {
		if err := appendTo(b.ctx, b.log, i, byte(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, lost := range []int{0, 2, commits} {
		c, err := b.other.OpenCopy(b.ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		read := func(until uint64) error {
			return c.Read(b.ctx, last, until, func(m eventlog.Message) error {
				if m.Sequence != last+1 {
					return &eventlog.BrokenError{Sequence: last + 1}
				}
				last = m.Sequence
				return nil
			})
		}
		b.steal(t, lost)
		for err == nil && last < commits {
			err = read(commits)
		}
		var broken *eventlog.BrokenError
		if (lost > 0) != (err != nil) || errors.As(err, &broken) || errors.Is(err, eventlog.ErrBehind) {
			t.Errorf("%d of %d messages did not arrive: read up to %d, %v", lost, commits, last, err)
		}
		c.Close(b.ctx)
	}
}

// A reader that wants no more of a batch has received the rest of it all the same.
func TestCopyReadInPart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range uint64(4) {
		if err := appendTo(b.ctx, b.log, i, byte(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := b.other.OpenCopy(b.ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(b.ctx)
	enough, last := errors.New("enough"), uint64(0)
	visit := func(m eventlog.Message) error {
		if m.Sequence > 2 {
			return enough
		}
		last = m.Sequence
		return nil
	}
	for err == nil {
		err = c.Read(b.ctx, last, 2, visit)
	}
	if !errors.Is(err, enough) || last != 2 {
		t.Fatalf("read up to %d: %v", last, err)
	}
	if err := c.Read(b.ctx, last, 4, visit); err != nil {
		t.Errorf("nothing more was delivered: %v", err)
	}
}

// steal receives messages of the only consumer of the log in the place of its reader.
func (b *bench) steal(t *testing.T, messages int) {
	t.Helper()
	if messages == 0 {
		return
	}
	stream, err := b.js.Stream(b.ctx, bus.LogStream(realm))
	if err != nil {
		t.Fatal(err)
	}
	for name := range stream.ConsumerNames(b.ctx).Name() {
		consumer, err := stream.Consumer(b.ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		for range messages {
			if _, err := consumer.Next(jetstream.FetchContext(b.ctx)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
