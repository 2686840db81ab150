package eventlog_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
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
	damage := func(err error) bool {
		var broken *eventlog.BrokenError
		return errors.As(err, &broken) || errors.Is(err, eventlog.ErrBehind)
	}
	for _, lost := range []int{0, 2, commits} {
		var last uint64
		var err error
		testkit.WaitFor(t, b.ctx, "the copy to be read", func() bool {
			c := b.openCopy()
			defer c.Close(b.ctx)
			b.steal(t, lost)
			for last, err = 0, nil; err == nil && last < commits; {
				err = c.Read(b.ctx, last, commits, func(m eventlog.Message) error {
					if m.Sequence != last+1 {
						return &eventlog.BrokenError{Sequence: last + 1}
					}
					last = m.Sequence
					return nil
				})
			}
			return lost > 0 || err == nil || damage(err) // this reader may have been too busy itself
		})
		if (lost > 0) != (err != nil) || damage(err) {
			t.Errorf("%d of %d messages did not arrive: read up to %d, %v", lost, commits, last, err)
		}
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
	enough, last := errors.New("enough"), uint64(0)
	visit := func(m eventlog.Message) error {
		if m.Sequence > 2 {
			return enough
		}
		last = m.Sequence
		return nil
	}
	testkit.WaitFor(t, b.ctx, "two of four commits to be read", func() bool {
		c := b.openCopy()
		defer c.Close(b.ctx)
		var err error
		for last = 0; err == nil; {
			err = c.Read(b.ctx, last, 2, visit)
		}
		if !errors.Is(err, enough) {
			return false // the reader was too busy
		}
		if err := c.Read(b.ctx, last, 4, visit); err != nil {
			t.Errorf("nothing more was delivered: %v", err)
		}
		return true
	})
	if last != 2 {
		t.Errorf("read up to %d, want 2", last)
	}
}

// openCopy opens a copy of the log.
func (b *bench) openCopy() *eventlog.Copy {
	b.t.Helper()
	c, err := b.other.OpenCopy(b.ctx, 1)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
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
