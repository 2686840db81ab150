package snapshot_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// A snapshot that an earlier version has written is read for ever: testdata has one of each
// format version and layout, of a small realm with rows in every table: objects with an owner, one that
// is being deleted, a removed owner, an import session, a command, an origin and a pause. A later build
// may compress differently, so that contents are compared.
func TestRecordedSnapshots(t *testing.T) {
	t.Parallel()
	for _, recorded := range []struct {
		file, hash string
		loaded     string // the hash of the loaded state in this layout
		layout     int
		tables     int // with rows
		paused     bool
	}{
		{"testdata/version-1.snapshot", "b55d6470661f71d4968052d01cb2dc47c6abc687c9b5a02a1e1d884a07c610da", "f70441465c92a921a62611b93f1d82e7de25dd79820a4af54e8ccfdef551e5f0", 6, 12, true},
		{"testdata/layout-7.snapshot", "a2b936efd6c5cfbccae997108cfd412834f721bce5d0b90062564cbbeb2e4c6d", "29af2f4b22e85654e74ee29055e46592198cf85f1ddf4d5ab7ccaddbe4c5f69a", 7, 0, false}, // with uses
		{"testdata/layout-8.snapshot", "14a400facf5330bff133b4b4661a752050174991cca25f5967c2b5d3c87a746d", "3a6f26967036b1d5a259c3cf028885b3369a3c6ce3d34349b5219170e6880654", 8, 15, true}, // with the numbers of objects of kinds, a brake, and an object that it has released
		{"testdata/layout-9.snapshot", "536e9b539c872ec4ed49e7c2f6e6e7316803f0d9f21732fdd125ca2858aeb65d", "536e9b539c872ec4ed49e7c2f6e6e7316803f0d9f21732fdd125ca2858aeb65d", 9, 16, true}, // with a notice
	} {
		b, err := os.ReadFile(recorded.file)
		must.Succeed(t, err)
		info, err := snapshot.Verify(t.Context(), bytes.NewReader(b))
		if err != nil || fmt.Sprintf("%x", info.Hash) != recorded.hash {
			t.Errorf("%s: hash %x, %v", recorded.file, info.Hash, err)
		}
		dir := filepath.Join(t.TempDir(), "state")
		config := state.Config{MemTableSize: 1 << 20, CacheSize: 1 << 20}
		if _, err := snapshot.Build(t.Context(), bytes.NewReader(b), dir, snapshot.Stream{}, config); err != nil {
			t.Fatalf("%s: %v", recorded.file, err)
		}
		s, err := state.Open(dir, config)
		must.Succeed(t, err)
		defer s.Close()
		if _, got := write(t, s); fmt.Sprintf("%x", got.Hash) != recorded.loaded || (got.Hash == info.Hash) != (recorded.layout == state.Schema) {
			t.Errorf("%s: the loaded state has the hash %x", recorded.file, got.Hash)
		}
		snap := s.Snapshot()
		defer snap.Close()
		totals, err := snap.Totals()
		if err != nil || recorded.tables > 0 && len(info.Counts) != recorded.tables || totals.Objects < 12 || s.Realm().Paused != recorded.paused {
			t.Errorf("%s: %+v, %+v, %v", recorded.file, totals, s.Realm(), err)
		}
	}
	if snapshot.Version != 1 || state.Schema != 9 {
		t.Error("add a snapshot of the new version to testdata")
	}
}
