package graph_test

import (
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

// A rebuild from a damaged log leaves the state as it was; one from the whole log
// replaces it.
func TestRebuildFromDamagedLog(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one", "two", "three"))
	before := checkpoint(t, dir)

	whole := installationIn(t, server)
	js := whole.JS()
	log, err := js.Stream(ctx, bus.LogStream(realm))
	must.Succeed(t, err)
	damaged := newInstallation(t)
	other := damaged.JS()
	config := bus.LogConfig(realm, 1)
	config.DenyDelete = false
	stream, err := other.CreateStream(ctx, config)
	must.Succeed(t, err)
	for at := uint64(1); at <= before.GetPosition(); at++ {
		m, err := log.GetMsg(ctx, at)
		must.Succeed(t, err)
		if _, err := other.Publish(ctx, bus.LogSubject(realm), m.Data); err != nil {
			t.Fatal(err)
		}
	}
	hole := before.GetPosition() - 1
	must.Succeed(t, stream.DeleteMsg(ctx, hole))
	if _, err := other.UpdateStream(ctx, bus.LogConfig(realm, 1)); err != nil {
		t.Fatal(err)
	}

	_, err = replay.Rebuild(ctx, other.Conn(), realm, dir, testkit.Secrets())
	var broken *eventlog.BrokenError
	if !errors.As(err, &broken) || broken.Position != hole {
		t.Fatalf("a log without the commit %d: %v", hole, err)
	}
	if got := checkpoint(t, dir); got.GetChecksum() != before.GetChecksum() || got.GetSequence() != before.GetSequence() {
		t.Errorf("the state is at %v, and was at %v", got, before)
	}

	done, err := replay.Rebuild(ctx, js.Conn(), realm, dir, testkit.Secrets())
	if err != nil || done.Revision != before.GetRevision() {
		t.Fatalf("the whole log: %+v, %v", done, err)
	}
	if got := checkpoint(t, dir); got.GetChecksum() != before.GetChecksum() {
		t.Errorf("the rebuilt state is at %v, and the one before was at %v", got, before)
	}
}
