package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A message that keeps failing with a permanent error is parked with everything that a
// retry needs, and blocks no other message.
func TestPark(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	b.publish(2)
	c := b.config(func(_ context.Context, m *worker.Message) error {
		if number(m) == "0" {
			return fmt.Errorf("handling: %w", worker.Permanent(errors.New("poison")))
		}
		return nil
	})
	c.ParkAfter = 3
	outcomes := make(chan worker.Outcome, 100)
	c.Observe = func(o worker.Outcome) { outcomes <- o }
	b.run(c)
	attempts, parked := 0, 0
	for parked == 0 {
		o := testkit.Receive(t, b.Ctx, "an outcome", outcomes)
		if o.Err != nil {
			attempts++
		}
		if o.Parked {
			parked++
		}
	}
	if attempts < 3 { // more if a copy is not acknowledged in time
		t.Errorf("parked after %d attempts", attempts)
	}
	b.waitForEnd()
	stream, err := b.JS().Stream(b.Ctx, bus.ParkedStream(realm))
	must.Succeed(t, err)
	original := subject(0)
	m, err := stream.GetLastMsgForSubject(b.Ctx, bus.ParkedSubject(realm, original, 1))
	must.Succeed(t, err)
	var p coppicev1.Parked
	must.Succeed(t, proto.Unmarshal(m.Data, &p))
	if p.GetSubject() != original || string(p.GetMessage()) != "0" || p.GetAttempts() < 3 || p.GetBy() != "worker" ||
		!strings.Contains(p.GetError(), "poison") || p.GetTime() == 0 {
		t.Errorf("parked as %v", &p)
	}
}

// A message that cannot be parked is not lost.
func TestParkFails(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	parked := bus.WorkConfigs(realm, 1)[2]
	must.Succeed(t, b.JS().DeleteStream(b.Ctx, parked.Name))
	b.publish(1)
	var attempts atomic.Int32
	c := b.config(func(context.Context, *worker.Message) error {
		attempts.Add(1)
		return worker.Permanent(errors.New("poison"))
	})
	c.ParkAfter = 1
	b.run(c)
	b.WaitFor("several attempts", func() bool { return attempts.Load() > 3 })
	if _, err := b.JS().CreateStream(b.Ctx, parked); err != nil {
		t.Fatal(err)
	}
	b.waitForEnd()
	stream, err := b.JS().Stream(b.Ctx, parked.Name)
	must.Succeed(t, err)
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages are parked", n)
	}
}

// A message of a newer format is never parked: another program may handle it.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	b := newQueue(t)
	b.publish(1)
	c := b.config(func(_ context.Context, m *worker.Message) error {
		if err := m.Known(worker.Format); err != nil {
			t.Error(err)
		}
		if err := m.Known(0); err != nil {
			t.Error(err)
		}
		return m.Known(worker.Format + 1)
	})
	c.ParkAfter = 1
	outcomes := make(chan worker.Outcome, 100)
	c.Observe = func(o worker.Outcome) {
		select {
		case outcomes <- o:
		default:
		}
	}
	b.run(c)
	for range 3 {
		o := testkit.Receive(t, b.Ctx, "an outcome", outcomes)
		if o.Parked || o.Err == nil || !strings.Contains(o.Err.Error(), "has version 2 of the format of work, and this program handles versions up to 1: replace it by the version of Coppice of the graph service") {
			t.Errorf("got %+v", o)
		}
	}
	if i := b.info(); i.NumAckPending+int(i.NumPending) != 1 {
		t.Errorf("the message left its queue: %+v", i)
	}
}
