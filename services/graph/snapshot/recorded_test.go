package snapshot_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// A snapshot that an earlier version has written is read for ever: testdata has one of each
// format version and layout, of a small realm with rows in every table: objects with an owner, one that
// is being deleted, a removed owner, an import session, a command, an origin and a pause. A later build
// may compress differently, so that contents are compared.
func TestRecordedSnapshots(t *testing.T) {
	t.Parallel()
	for _, recorded := range []struct{ file, hash string }{
		{"testdata/version-1.snapshot", "b55d6470661f71d4968052d01cb2dc47c6abc687c9b5a02a1e1d884a07c610da"},
	} {
		b, err := os.ReadFile(recorded.file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := snapshot.Verify(t.Context(), bytes.NewReader(b))
		if err != nil || fmt.Sprintf("%x", info.Hash) != recorded.hash {
			t.Errorf("%s: hash %x, %v", recorded.file, info.Hash, err)
		}
		dir := filepath.Join(t.TempDir(), "state")
		config := state.Config{MemTableSize: 1 << 20, CacheSize: 1 << 20}
		if _, err := snapshot.Load(t.Context(), bytes.NewReader(b), dir, snapshot.Stream{}, config); err != nil {
			t.Fatalf("%s: %v", recorded.file, err)
		}
		s, err := state.Open(dir, config)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, got := write(t, s); got.Hash != info.Hash {
			t.Errorf("%s: the loaded state has the hash %x", recorded.file, got.Hash)
		}
		snap := s.Snapshot()
		defer snap.Close()
		totals, err := snap.Totals()
		if err != nil || len(info.Counts) != 12 || totals.Objects < 12 || !s.Realm().Paused || s.Realm().Origin.Sequence != 7 {
			t.Errorf("%s: %+v, %+v, %v", recorded.file, totals, s.Realm(), err)
		}
	}
	if snapshot.Version != 1 || state.Schema != 6 {
		t.Error("add a snapshot of the new version to testdata")
	}
}
