package wholelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Source is the commits of consecutive segments: a replay.Source without a stream.
type Source struct {
	Store archive.Store
	// Segments have the commits, without a gap: see archive.Chain.
	Segments []archive.Item
	// Pace is called before each commit is visited, with the size of its message in bytes, and
	// may wait to limit the rate. It may be nil.
	Pace func(ctx context.Context, bytes int) error
}

// Follow calls visit for the commits at or behind a position, in order. It reads each segment from
// its beginning, and checks everything in it. It returns when visit fails or ctx ends; if the segments
// end before, the error is ErrEnd.
func (s Source) Follow(ctx context.Context, from uint64, visit func(eventlog.Message) error) error {
	for _, item := range s.Segments {
		if err := s.segment(ctx, item, from, visit); err != nil {
			return err
		}
	}
	return ErrEnd
}

// ErrEnd is returned by Source.Follow when the segments have no further commit.
var ErrEnd = errors.New("the segments end here")

func (s Source) segment(ctx context.Context, item archive.Item, from uint64, visit func(eventlog.Message) error) (err error) {
	in, err := s.Store.Open(ctx, item.Entry.Name, 0, item.Entry.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for c, err := range segment.NewScanner(in).Commits() {
		if err != nil {
			return fmt.Errorf("archive %s: %s: %w", s.Store, item.Entry.Name, err)
		}
		if s.Pace != nil {
			err = s.Pace(ctx, len(c.Message))
		}
		if err == nil && c.Position >= from {
			err = visit(eventlog.Message{Position: c.Position, Data: c.Message, Pending: 1})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
