package archive

import (
	"context"
	"io"

	"github.com/coppice-gc/coppice/internal/segment"
)

// readerAt reads an entry by ranges.
type readerAt struct {
	ctx   context.Context //nolint:containedctx // io.ReaderAt has none
	store Store
	entry Entry
}

// ReaderAt returns a reader of an entry: each ReadAt opens a range. It is safe for
// concurrent use, until ctx ends.
func ReaderAt(ctx context.Context, store Store, entry Entry) io.ReaderAt {
	return &readerAt{ctx: ctx, store: store, entry: entry}
}

// ReadAt implements io.ReaderAt.
func (r *readerAt) ReadAt(b []byte, offset int64) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	length := min(int64(len(b)), r.entry.Size-offset)
	if length <= 0 {
		return 0, io.EOF
	}
	in, err := r.store.Open(r.ctx, r.entry.Name, offset, length)
	if err != nil {
		return 0, err
	}
	n, err = io.ReadFull(in, b[:length])
	if closed := in.Close(); err == nil {
		err = closed
	}
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// OpenSegment opens an entry that is a segment. The reader is usable until ctx ends.
func OpenSegment(ctx context.Context, store Store, entry Entry) (*segment.Reader, error) {
	return segment.Open(ReaderAt(ctx, store, entry), entry.Size)
}
