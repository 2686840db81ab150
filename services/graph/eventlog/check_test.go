package eventlog_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Messages that are missing at the beginning of the stream and between others are found
// and named.
func TestExtent(t *testing.T) {
	t.Parallel()
	ctx, server := testkit.Context(t), testkit.NATS(t)
	js, err := jetstream.New(testkit.Conn(t, server, bus.RoleGraph))
	must.Succeed(t, err)
	c := bus.LogConfig(realm, 1)
	c.DenyDelete = false
	stream, err := js.CreateStream(ctx, c)
	must.Succeed(t, err)
	log, err := eventlog.On(js, stream, realm, keys)
	must.Succeed(t, err)
	extent := func(first, last, missed uint64, missing ...uint64) eventlog.Extent {
		t.Helper()
		e, err := log.Extent(ctx)
		must.Succeed(t, err)
		if e.First != first && last > 0 || e.Last != last || e.Missed(1) != missed || !slices.Equal(e.Missing, missing) {
			t.Errorf("%+v, %d missed; want %d to %d, %d missed, %v missing", e, e.Missed(1), first, last, missed, missing)
		}
		return e
	}
	if e := extent(1, 0, 0); e.Damage(1) != nil {
		t.Errorf("an empty stream: %v", e.Damage(1))
	}
	for range 7 {
		if _, err := js.Publish(ctx, bus.LogSubject(realm), []byte("a message")); err != nil {
			t.Fatal(err)
		}
	}
	if e := extent(1, 7, 0); e.Damage(1) != nil {
		t.Errorf("a whole stream: %v", e.Damage(1))
	}
	for _, at := range []uint64{5, 3} {
		must.Succeed(t, stream.DeleteMsg(ctx, at))
	}
	e := extent(1, 7, 2, 3, 5)
	if d := e.Damage(1); d == nil || d.Position != 3 || d.Last != 5 {
		t.Errorf("3 and 5 are missing: %+v", d)
	}
	must.Succeed(t, stream.DeleteMsg(ctx, 1))
	e = extent(2, 7, 3, 3, 5)
	if d := e.Damage(1); d == nil || d.Position != 1 || d.Last != 5 {
		t.Errorf("1, 3 and 5 are missing: %+v", d)
	}
	if d := e.Damage(2); d == nil || d.Position != 3 || e.Missed(2) != 2 {
		t.Errorf("from 2 on, 3 and 5 are missing: %+v", d)
	}
}
