package wholelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// A stream that was damaged lacks messages between its first and its last one: it has a hole. Commits
// that stand there are read from the segments of the archive, as those before the stream are.

// readHole is Read for a position at which the copy of the stream that answers may have a hole.
func (l *Log) readHole(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) error {
	next, err := l.next(ctx, from)
	if err != nil {
		return err
	}
	if next == from { // another copy has answered
		_, err = l.Log.Read(ctx, from, 1, maxBytes, visit)
		return err
	}
	if l.store == nil || next == 0 {
		return l.Fill(ctx, from, limit, maxBytes, visit)
	}
	if _, err = l.Message(ctx, from); err == nil { // the leader of the stream has it
		return l.Fill(ctx, from, limit, maxBytes, visit)
	}
	if !errors.Is(err, eventlog.ErrNotFound) {
		return err
	}
	messages, err := l.fillSome(ctx, from, next, limit, maxBytes, visit)
	switch {
	case err != nil || messages > 0:
		return err
	case l.MaxLag() > 0: // the leader may have what follows
		return l.Fill(ctx, from, limit, maxBytes, visit)
	}
	_, err = l.Read(ctx, next, limit, maxBytes, visit) // which may come to the next hole
	return err
}

// next returns the position of the first message from a position on in the copy of the stream that
// answers, zero if there is none.
func (l *Log) next(ctx context.Context, from uint64) (position uint64, err error) {
	_, err = l.Log.Read(ctx, from, 1, 1, func(m eventlog.Message) error {
		position = m.Position
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return position, err
}

// fill visits the commits of the archive from a position on and before another one. whole says that the
// archive has all commits there, and not just the first ones.
func (l *Log) fill(ctx context.Context, from, before uint64, visit func(eventlog.Message) error) (whole bool, err error) {
	err = l.visit(ctx, from, func(c segment.Commit) error {
		if whole = c.Position >= before; whole {
			return errFound
		}
		if err := visit(eventlog.Message{Position: c.Position, Data: c.Message, Pending: 1}); err != nil {
			return err
		}
		from = c.Position + 1
		return nil
	})
	if whole {
		return true, nil
	}
	return from == before, err
}

// fillSome is fill for at most limit commits, which have about maxBytes together. It returns their number. Commits of segments
// that are passed over are left out.
func (l *Log) fillSome(ctx context.Context, from, before uint64, limit, maxBytes int, visit func(eventlog.Message) error) (messages int, err error) {
	bytes := 0
	err = l.filling(ctx, from, before, func(m eventlog.Message) error {
		if messages >= limit || messages > 0 && bytes+len(m.Data) > maxBytes {
			return errFound
		}
		messages++
		bytes += len(m.Data)
		return visit(m)
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return messages, err
}

// filling is fill, but leaves out the commits of segments that are passed over.
func (l *Log) filling(ctx context.Context, from, before uint64, visit func(eventlog.Message) error) error {
	for {
		_, err := l.fill(ctx, from, before, func(m eventlog.Message) error {
			err := visit(m)
			if err == nil {
				from = m.Position + 1
			}
			return err
		})
		if !l.passes(err) || ctx.Err() != nil {
			return err
		}
	}
}

// followHole visits the commits of the archive in the hole behind last, and moves last behind them. filled is
// false if the archive does not have the next one.
func (l *Log) followHole(ctx context.Context, last *uint64, visit func(eventlog.Message) error) (filled bool, err error) {
	next, err := l.next(ctx, *last+1)
	if err == nil && next == 0 { // the hole is at the end of the stream
		if next, _, err = l.Log.Last(ctx); err == nil {
			next++
		}
	}
	if err != nil || next <= *last+1 {
		return false, err
	}
	before := *last
	whole, err := l.fill(ctx, *last+1, next, visit)
	filled = *last > before
	if err == nil && filled && whole {
		*last = next - 1 // what remains of the hole were messages that were no commits
	}
	return filled, err
}

// seekHole returns the position of a wanted commit, given that of the last one in the stream that precedes the
// place: later ones may be in a hole behind it.
func (l *Log) seekHole(ctx context.Context, position uint64, w wanted) (uint64, error) {
	next, err := l.next(ctx, position+1)
	if err != nil || next <= position+1 {
		return position, err
	}
	err = l.filling(ctx, position+1, next, func(m eventlog.Message) error {
		h, foreign := l.Keys().Check(m)
		switch {
		case foreign != "":
			return nil
		case !w.stream(h):
			return errFound
		}
		position = m.Position
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return position, err
}

// followStream follows the stream behind last. If the last messages of the stream are missing, the commits of
// the archive are visited in their place.
func (l *Log) followStream(ctx context.Context, last *uint64, visit func(eventlog.Message) error) error {
	begins, end, err := l.endHole(ctx)
	if err != nil || begins == 0 {
		return l.Log.Follow(ctx, *last+1, visit) // which waits until the stream can be read
	}
	if *last+1 < begins {
		err := l.Log.Follow(ctx, *last+1, func(m eventlog.Message) error {
			if err := visit(m); err != nil {
				return err
			}
			if m.Position+1 >= begins {
				return errFound
			}
			return nil
		})
		if !errors.Is(err, errFound) {
			return err
		}
	}
	if *last < end {
		whole, err := l.fill(ctx, *last+1, end+1, visit)
		if err != nil {
			return err
		}
		if whole {
			*last = end
		}
	}
	return l.Log.Follow(ctx, *last+1, visit)
}

// endHole returns where a hole at the end of the stream begins; begins is zero if the last message can be
// read. It is always zero on a cluster, where a copy that lags looks like this.
func (l *Log) endHole(ctx context.Context) (begins, end uint64, err error) {
	if l.store == nil || l.MaxLag() > 0 {
		return 0, 0, nil
	}
	end, first, err := l.Log.Last(ctx)
	if err != nil || end == 0 || first > end {
		return 0, 0, err
	}
	if at, err := l.next(ctx, end); err != nil || at != 0 {
		return 0, 0, err
	}
	low, high := max(first, 1), end // nothing can be read from high on
	for low < high {
		middle := low + (high-low)/2
		at, err := l.next(ctx, middle)
		if err != nil {
			return 0, 0, err
		}
		if at == 0 {
			high = middle
		} else {
			low = at + 1
		}
	}
	return high, end, nil
}

// readEnd is Read for a position from which on nothing can be read, if the stream ends later all the same.
func (l *Log) readEnd(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) (pending uint64, err error) {
	if l.store == nil || l.MaxLag() > 0 {
		return 0, nil
	}
	end, _, err := l.Log.Last(ctx)
	if err != nil || end < from {
		return 0, err
	}
	if at, err := l.next(ctx, from); err != nil || at != 0 {
		return 1, err // it was appended meanwhile
	}
	n, err := l.fillSome(ctx, from, end+1, limit, maxBytes, visit)
	return uint64(min(n, 1)), err
}

// ArchiveEnd returns the place behind the last commit of the archive; it is zero if the archive has no
// segments.
func (l *Log) ArchiveEnd(ctx context.Context) (end segment.Point, err error) {
	segments, err := l.list(ctx, true)
	if err != nil || len(segments) == 0 {
		return end, err
	}
	r, err := l.reader(ctx, segments[len(segments)-1])
	if err != nil {
		return end, err
	}
	return r.Info().Last, nil
}

// Archived returns the checksum of the commit that the archive has at a position; ok is false if it has
// none there.
func (l *Log) Archived(ctx context.Context, position uint64) (checksum uint64, ok bool, err error) {
	err = l.visit(ctx, position, func(c segment.Commit) error {
		checksum, ok = c.Point().Checksum, c.Position == position
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return checksum, ok, err
}

// Lost calls visit for the commits of the archive behind a position at which the stream ends. It stops
// without an error where the archive has no more. If a message that was no commit stood
// between them, the error is a BrokenError: commits behind it cannot be appended at their positions again.
func (l *Log) Lost(ctx context.Context, end uint64, visit func(eventlog.Message) error) error {
	if l.store == nil {
		return nil
	}
	return l.visit(ctx, end+1, func(c segment.Commit) error {
		if c.Position != end+1 {
			return &eventlog.BrokenError{Position: end + 1, Last: c.Position - 1, What: fmt.Sprintf("the archive has no commit there, and the next one was at sequence %d", c.Position)}
		}
		end = c.Position
		return visit(eventlog.Message{Position: c.Position, Data: c.Message, Pending: 1})
	})
}
