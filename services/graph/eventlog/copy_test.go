package eventlog_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Messages that a NATS server delivered, and that never arrived, are no damage of its copy: a request
// of a busy reader ends before they come, and the server does not deliver them again.
func TestCopyDeliveredInVain(t *testing.T) {
	t.Parallel()
	const commits = 4
	b := newWritten(t)
	for i := range uint64(commits) {
		must.Succeed(t, appendTo(b.Ctx, b.log, i, byte(i+1)))
	}
	damage := func(err error) bool {
		var broken *eventlog.BrokenError
		return errors.As(err, &broken) || errors.Is(err, eventlog.ErrBehind)
	}
	for _, lost := range []int{0, 2, commits} {
		var last uint64
		var err error
		b.WaitFor("the copy to be read", func() bool {
			c := b.openCopy()
			defer c.Close(b.Ctx)
			b.steal(t, lost)
			for last, err = 0, nil; err == nil && last < commits; {
				err = c.Read(b.Ctx, last, commits, func(m eventlog.Message) error {
					if m.Position != last+1 {
						return &eventlog.BrokenError{Position: last + 1}
					}
					last = m.Position
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
	b := newWritten(t)
	for i := range uint64(4) {
		must.Succeed(t, appendTo(b.Ctx, b.log, i, byte(i+1)))
	}
	enough, last := errors.New("enough"), uint64(0)
	visit := func(m eventlog.Message) error {
		if m.Position > 2 {
			return enough
		}
		last = m.Position
		return nil
	}
	b.WaitFor("two of four commits to be read", func() bool {
		c := b.openCopy()
		defer c.Close(b.Ctx)
		var err error
		for last = 0; err == nil; {
			err = c.Read(b.Ctx, last, 2, visit)
		}
		if !errors.Is(err, enough) {
			return false // the reader was too busy
		}
		if err := c.Read(b.Ctx, last, 4, visit); err != nil {
			t.Errorf("nothing more was delivered: %v", err)
		}
		return true
	})
	if last != 2 {
		t.Errorf("read up to %d, want 2", last)
	}
}

// openCopy opens a copy of the log.
func (b *written) openCopy() *eventlog.Copy {
	b.Helper()
	c, err := b.other.OpenCopy(b.Ctx, 1)
	must.Succeed(b, err)
	return c
}

// steal receives messages of the only consumer of the log in the place of its reader.
func (b *written) steal(t *testing.T, messages int) {
	t.Helper()
	if messages == 0 {
		return
	}
	stream, err := b.JS().Stream(b.Ctx, bus.LogStream(realm))
	must.Succeed(t, err)
	for name := range stream.ConsumerNames(b.Ctx).Name() {
		consumer, err := stream.Consumer(b.Ctx, name)
		must.Succeed(t, err)
		for range messages {
			if _, err := consumer.Next(jetstream.FetchContext(b.Ctx)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
