package archivetest

import (
	"context"
	"io"
	"sync/atomic"
	"testing/iotest"

	"github.com/coppice-gc/coppice/internal/archive"
)

// Ending is a store whose readers end before their last byte, as a proxy may end them.
type Ending struct {
	archive.Store
	Err   error // with which they end; io.EOF as if the entry ended there
	Times int64 // the number of readers that do, before those that do not
	opens atomic.Int64
}

// Open implements archive.Store.
func (s *Ending) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	in, err := s.Store.Open(ctx, name, offset, length)
	if err != nil || s.opens.Add(1) > s.Times {
		return in, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(in, (length-1)/2), iotest.ErrReader(s.Err)), in}, nil
}
