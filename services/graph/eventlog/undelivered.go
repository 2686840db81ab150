package eventlog

import (
	"context"
	"errors"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
)

// Undelivered returns the header and the position of the first commit from a position on and before
// another. It is for a reader whose copy of the log lacks the messages there, which the leader of the
// stream may have. The position is zero if there is no commit, or if a message before it was cut.
func (l *Log) Undelivered(ctx context.Context, from, before uint64) (h Header, position uint64, err error) {
	for at := from; at < before; at++ {
		commit, err := l.Get(ctx, at)
		switch {
		case errors.Is(err, ErrForeign):
			continue
		case errors.Is(err, ErrNotFound): // it was cut meanwhile, and so were those before it
			return h, 0, nil
		case err != nil:
			return h, 0, err
		}
		h, err = commitcodec.ReadHeader(commit)
		return h, at, err
	}
	return h, 0, nil
}
