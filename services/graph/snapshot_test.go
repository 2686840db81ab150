package graph_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// snapshotOf returns a snapshot of the state in a directory.
func snapshotOf(tb testing.TB, dir string) ([]byte, snapshot.Info) {
	tb.Helper()
	snap, closeState := openState(tb, filepath.Join(dir, realm))
	defer closeState()
	var b bytes.Buffer
	info, err := snapshot.Write(tb.Context(), &b, snap, snapshot.WriteOptions{})
	must.Succeed(tb, err)
	return b.Bytes(), info
}

// The state of a live writer and one that is replayed from the log have the same snapshot,
// byte for byte. A graph service whose state was loaded from it follows the log from there,
// writes, and its state is the fold of the log.
func TestStartFromSnapshot(t *testing.T) {
	t.Parallel()
	server, dir, other := t.TempDir(), t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one", "two", "three"))
	created := checkpoint(t, dir).GetStreamCreated()
	live, info := snapshotOf(t, dir)

	func() {
		n := installationIn(t, server)
		js := n.JS()
		if _, err := replay.Rebuild(testkit.Context(t), js.Conn(), realm, dir, testkit.Secrets()); err != nil {
			t.Fatal(err)
		}
		n.shutdown()
	}()
	if replayed, _ := snapshotOf(t, dir); !bytes.Equal(replayed, live) {
		t.Error("the snapshot of the replayed state is not that of the live one")
	}
	run(t, server, dir, creating(t, "four"))

	stream := snapshot.Stream{RealmID: info.Checkpoint.GetRealmId(), Created: created}
	if _, err := snapshot.Build(testkit.Context(t), bytes.NewReader(live), filepath.Join(other, realm), stream, state.Config{}); err != nil {
		t.Fatal(err)
	}
	run(t, server, other, func(n *installation) {
		n.create("five")
		n.has("five", "four", "one", "three", "two")
		if v := n.verify(); v.GetDifference() != "" || v.GetEvents() == 0 {
			t.Errorf("verified: %v", v)
		}
	})
	if got, before := checkpoint(t, other), checkpoint(t, dir); got.GetRevision() != before.GetRevision()+1 {
		t.Errorf("the state is at revision %d, and the log was at %d before the last object", got.GetRevision(), before.GetRevision())
	}
}
