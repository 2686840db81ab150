package chaos_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
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

// faulty is an archive that fails, or returns damaged bytes, when its trap says so.
type faulty struct {
	archive.Store
	t *trap
}

var errStore = errors.New("the store fails, as the test wants")

func (f faulty) fault() string {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return f.t.store
}

func (f faulty) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	if f.fault() == storeFails {
		return errStore
	}
	return f.Store.Put(ctx, name, content, size)
}

func (f faulty) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	fault := f.fault()
	if fault == storeFails {
		return nil, errStore
	}
	r, err := f.Store.Open(ctx, name, offset, length)
	if err == nil && fault == storeDamages {
		r = damaging{r}
	}
	return r, err
}

func (f faulty) List(ctx context.Context, prefix string) iter.Seq2[archive.Entry, error] {
	if f.fault() == storeFails {
		return func(yield func(archive.Entry, error) bool) { yield(archive.Entry{}, errStore) }
	}
	return f.Store.List(ctx, prefix)
}

func (f faulty) Delete(ctx context.Context, name string) error {
	if f.fault() == storeFails {
		return errStore
	}
	return f.Store.Delete(ctx, name)
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
