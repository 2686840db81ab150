package wholelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// errPassed ends a read of segments before its first commit.
var errPassed = errors.New("a segment was passed over meanwhile")

// errCut ends a read of the stream at messages that it does not have.
var errCut = errors.New("the stream begins later")

// Read calls visit for at most limit messages from a position on, as eventlog.Log.Read does. If
// the stream begins later, it visits commits of the archive, and pending is not zero. If
// the archive does not have them, the error wraps eventlog.ErrCut.
func (l *Log) Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) (pending uint64, err error) {
	from = max(from, 1)
	next := from
	pending, err = l.Log.Read(ctx, from, limit, maxBytes, func(m eventlog.Message) error {
		if m.Position > next {
			return errCut // also if the stream was cut while it was read
		}
		next = m.Position + 1
		return visit(m)
	})
	switch {
	case err == nil && pending == 0 && next == from:
		return l.readEnd(ctx, from, limit, maxBytes, visit)
	case !errors.Is(err, errCut):
		return pending, err
	case next > from:
		return 1, nil // the next call continues
	}
	return 1, l.read(ctx, from, limit, maxBytes, visit)
}

// read is Read for a position before the stream.
func (l *Log) read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) error {
	_, first, err := l.Log.Last(ctx)
	if err == nil && from >= first {
		return l.readHole(ctx, from, limit, maxBytes, visit)
	}
	if err != nil {
		return err
	}
	passed := l.passings()
	if err := l.covers(ctx, from, first); err != nil {
		return err
	}
	messages, bytes := 0, 0
	err = l.visit(ctx, from, func(c segment.Commit) error {
		if messages == 0 && l.passings() != passed {
			return errPassed // the segments may have a gap now that they did not have for covers
		}
		if c.Position >= first || messages >= limit || messages > 0 && bytes+len(c.Message) > maxBytes {
			return errFound
		}
		messages++
		bytes += len(c.Message)
		return visit(eventlog.Message{Position: c.Position, Data: c.Message, Pending: 1})
	})
	switch {
	case errors.Is(err, errPassed):
		return l.read(ctx, from, limit, maxBytes, visit)
	case errors.Is(err, errFound), l.passes(err) && messages > 0: // the next call says what is missing
		err = nil
	case l.passes(err):
		if cut := l.covers(ctx, from, first); cut != nil {
			return fmt.Errorf("%w: %w", cut, err)
		}
		return l.read(ctx, from, limit, maxBytes, visit) // other segments have the commits
	}
	if err == nil && messages == 0 { // only messages that were no commits were cut
		_, err = l.Read(ctx, first, limit, maxBytes, visit)
	}
	return err
}

// covers returns an error that wraps eventlog.ErrCut unless the archive has all commits from a position on that precede
// the stream, whose first message is at first.
func (l *Log) covers(ctx context.Context, from, first uint64) error {
	begins, _, err := l.begins(ctx, first)
	if err == nil && from < begins {
		err = fmt.Errorf("log of realm %s: sequence %d: %w: the archive begins at sequence %d", l.Realm(), from, eventlog.ErrCut, begins)
	}
	return err
}

// visit calls its argument visit for the commits in the archive from a position on, until the archive
// ends or has a gap. If the argument returns an error, visit stops and returns it.
func (l *Log) visit(ctx context.Context, from uint64, visit func(segment.Commit) error) error {
	return l.relisting(ctx, func(error) bool { return false }, func() error { return l.visitListed(ctx, &from, visit) })
}

// visitListed is visit with the segments that are listed. It sets from to the position behind the last commit that was
// visited.
func (l *Log) visitListed(ctx context.Context, from *uint64, visit func(segment.Commit) error) error {
	segments, err := l.list(ctx, false)
	if err != nil {
		return err
	}
	at, err := l.find(ctx, segments, *from)
	if err == nil && at == len(segments) {
		if segments, err = l.list(ctx, true); err == nil {
			at, err = l.find(ctx, segments, *from)
		}
	}
	if err != nil || at == len(segments) {
		return err
	}
	for _, s := range archive.Chain(segments[at:], segments[at].First) {
		r, err := l.reader(ctx, s)
		if err != nil {
			return err
		}
		sequence, err := r.AtPosition(*from)
		if err != nil {
			return l.wrap(s, err)
		}
		for c, err := range r.Commits(sequence) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return l.wrap(s, err)
			}
			if c.Position < *from {
				continue
			}
			if err := visit(c); err != nil {
				return err
			}
			*from = c.Position + 1
		}
	}
	return nil
}

// find returns the index of the first segment whose last commit is at a position or behind it;
// len(segments) if there is none.
func (l *Log) find(ctx context.Context, segments []archive.Item, position uint64) (index int, err error) {
	return l.search(ctx, segments,
		func(i segment.Info) bool { return i.Last.Position < position },
		func(i segment.Info) bool { return i.First.Position <= position })
}

// search returns the index of the first segment of which precedes is false; len(segments) if there is none. Of a segment
// that cannot be read, precedes counts as true if follows is true of the segment behind it. So others can be found, and
// reading the result fails if that is the one that cannot be read. If the result is behind the last gap, segments before
// the gap are not read: they may be unreadable, or take as long as the store is waited for.
func (l *Log) search(ctx context.Context, segments []archive.Item, precedes, follows func(segment.Info) bool) (index int, err error) {
	if run := lastRun(segments); run > 0 {
		if r, err := l.reader(ctx, segments[run]); err == nil && follows(r.Info()) {
			index, err := l.searchAll(ctx, segments[run:], precedes, follows)
			return run + index, err
		}
	}
	return l.searchAll(ctx, segments, precedes, follows)
}

// searchAll is search, without regard to gaps.
func (l *Log) searchAll(ctx context.Context, segments []archive.Item, precedes, follows func(segment.Info) bool) (index int, err error) {
	index = sort.Search(len(segments), func(i int) bool {
		if err != nil {
			return true
		}
		r, failed := l.reader(ctx, segments[i])
		switch {
		case failed == nil:
			return !precedes(r.Info())
		case errors.Is(failed, archive.ErrNotFound) || ctx.Err() != nil:
			err = failed
			return true
		case i+1 == len(segments):
			return true
		}
		behind, failed := l.reader(ctx, segments[i+1])
		return failed != nil || !follows(behind.Info())
	})
	return index, err
}

// Seek returns the position of the commit that contains a revision: the last commit whose first
// revision is not greater. It is the first commit that can be read if all are later.
func (l *Log) Seek(ctx context.Context, revision uint64) (position uint64, err error) {
	position, err = l.Log.Seek(ctx, revision)
	return l.seek(ctx, position, err, wanted{
		stream: func(h eventlog.Header) bool { return h.FirstRevision <= revision },
		begins: func(i segment.Info) bool { return i.Before.Revision < revision },
		place:  func(r *segment.Reader) (uint64, error) { return r.SeekRevision(revision) },
	})
}

// SeekTime returns the position of the last commit that is not later than a time, or of the
// first commit that can be read if all are later.
func (l *Log) SeekTime(ctx context.Context, t lifecycle.Time) (position uint64, err error) {
	position, err = l.Log.SeekTime(ctx, t)
	return l.seek(ctx, position, err, wanted{
		stream: func(h eventlog.Header) bool { return h.Time <= t },
		begins: func(i segment.Info) bool { return i.First.Time <= int64(t) },
		place: func(r *segment.Reader) (uint64, error) {
			sequence, err := r.AtTime(t)
			if errors.Is(err, segment.ErrOutside) {
				return r.Info().First.Position, nil
			}
			if err != nil {
				return 0, err
			}
			return positionOf(r, sequence)
		},
	})
}

// wanted is the last commit that precedes a place.
type wanted struct {
	stream func(eventlog.Header) bool            // whether a commit precedes it
	begins func(segment.Info) bool               // whether the first commit of a segment does
	place  func(*segment.Reader) (uint64, error) // the position of the last one in a segment
}

// seek returns the position of a wanted commit. position and err are the result of the search in the
// stream.
func (l *Log) seek(ctx context.Context, position uint64, err error, w wanted) (uint64, error) {
	if err != nil || l.store == nil {
		return position, err
	}
	h, first, err := l.FirstCommit(ctx)
	switch {
	case err != nil || h.Sequence == 0:
		return position, err
	case position > first || w.stream(h):
		return l.seekHole(ctx, position, w)
	}
	_, begins, err := l.Log.Last(ctx)
	if err == nil {
		_, _, err = l.begins(ctx, begins) // lists the segments again if they may end too early
	}
	if err != nil {
		return 0, err
	}
	var found uint64
	err = l.relisting(ctx, l.passes, func() error {
		found, err = l.seekListed(ctx, position, w)
		return err
	})
	return found, err
}

// seekListed is seek in the segments that are listed. It returns the position if there are none.
func (l *Log) seekListed(ctx context.Context, position uint64, w wanted) (uint64, error) {
	segments, err := l.list(ctx, false)
	if err != nil || len(segments) == 0 {
		return position, err
	}
	at, err := l.search(ctx, segments, w.begins, w.begins)
	if err == nil && at < len(segments) {
		_, err = l.reader(ctx, segments[at]) // if it cannot be read, the commit may be in it
	}
	if err != nil {
		return 0, err
	}
	s := segments[max(at, 1)-1]
	r, err := l.reader(ctx, s)
	if err != nil {
		return 0, err
	}
	if position, err = w.place(r); err != nil {
		err = l.wrap(s, err)
	}
	return position, err
}

// positionOf returns the position of a commit of a segment.
func positionOf(r *segment.Reader, sequence uint64) (position uint64, err error) {
	for c, err := range r.Commits(sequence) {
		return c.Position, err
	}
	return 0, fmt.Errorf("commit %d: %w", sequence, segment.ErrOutside)
}

// Follow calls visit for the messages from a position on, as eventlog.Log.Follow does, after the
// commits of the archive that precede the stream.
func (l *Log) Follow(ctx context.Context, from uint64, visit func(eventlog.Message) error) error {
	var refused error // by visit
	last := from - 1
	each := func(m eventlog.Message) error {
		if refused = visit(m); refused == nil {
			last = m.Position
		}
		return refused
	}
	for {
		err := l.archivedPart(ctx, &last, each)
		if err == nil {
			err = l.followStream(ctx, &last, each)
		}
		var broken *eventlog.BrokenError
		if refused != nil || l.store == nil || !errors.As(err, &broken) {
			return err
		}
		_, first, failed := l.Log.Last(ctx)
		if failed != nil {
			return errors.Join(err, failed)
		}
		if first <= last+1 {
			filled, failed := l.followHole(ctx, &last, each)
			if refused != nil || failed != nil {
				return cmp.Or(refused, failed)
			}
			if !filled {
				return err
			}
			continue
		}
		// The stream was cut meanwhile. The archive has what precedes it.
		e, failed := l.Readable(ctx)
		if failed = cmp.Or(failed, e.Unavailable); failed != nil {
			return failed // and not that the log is broken: the archive may have what is missing
		}
		if e.First > last+1 {
			return err
		}
	}
}

// archivedPart visits the commits behind last that precede the stream.
func (l *Log) archivedPart(ctx context.Context, last *uint64, visit func(eventlog.Message) error) error {
	if l.store == nil {
		return nil
	}
	for {
		_, first, err := l.Log.Last(ctx)
		if err != nil {
			if errors.Is(err, eventlog.ErrGone) {
				return err
			}
			return nil // Follow waits until the stream can be read
		}
		if *last+1 >= first {
			return nil
		}
		e, err := l.Readable(ctx)
		if err = cmp.Or(err, e.Unavailable); err != nil {
			return err
		}
		if *last+1 < e.First {
			return &eventlog.BrokenError{Position: *last + 1, Last: e.First - 1, What: "neither the stream nor the archive has it"}
		}
		before := *last
		err = l.visit(ctx, *last+1, func(c segment.Commit) error {
			if c.Position >= first {
				return errFound
			}
			return visit(eventlog.Message{Position: c.Position, Data: c.Message, Pending: 1})
		})
		if err != nil && !errors.Is(err, errFound) {
			return err
		}
		if *last == before { // what precedes the stream are messages that were no commits
			*last = first - 1
		}
	}
}
