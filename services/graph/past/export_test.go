package past

import (
	"context"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Search searches a log for the last commit up to a point that precedes its end.
func Search(ctx context.Context, log Log, keys *eventlog.Keys, p Point) (Commit, error) {
	h := &Reader{c: Config{Log: log, Keys: keys}}
	c, _, err := h.search(ctx, p)
	return c, err
}

// The errors of Search.
var (
	ErrLacks   = errLacks
	ErrEarlier = errEarlier
)
