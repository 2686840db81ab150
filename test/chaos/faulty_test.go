package chaos_test

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/services/graph/archiver"
)

// eagerArchive makes segments and verified snapshots within seconds.
var eagerArchive = archiver.Limits{
	SegmentBytes: 64 << 10, SegmentAge: 2 * time.Second, SnapshotBytes: 256 << 10, SnapshotAge: 10 * time.Second,
	Interval: 100 * time.Millisecond, Turn: 20 * time.Second, Pause: time.Second,
}

// The faults of an archive.
const (
	storeFails   = "fails"
	storeDamages = "damages"
)

var errStore = errors.New("the store fails, as the test wants")

// faulty returns an archive that fails, or returns damaged bytes, when its trap says so.
func faulty(store archive.Store, t *trap) archive.Store {
	is := func(fault string) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.store == fault
	}
	return &archivetest.Hooked{
		Store: store,
		Before: func(context.Context, archivetest.Call) error {
			if is(storeFails) {
				return errStore
			}
			return nil
		},
		Reading: func(_ archivetest.Call, in io.ReadCloser) io.ReadCloser {
			if is(storeDamages) {
				return damaging{in}
			}
			return in
		},
	}
}

// damaging changes a bit in the middle of each part that is read.
type damaging struct{ io.ReadCloser }

func (d damaging) Read(b []byte) (int, error) {
	n, err := d.ReadCloser.Read(b)
	if n > 0 {
		b[n/2] ^= 1
	}
	return n, err
}
