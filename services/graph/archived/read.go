package archived

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// errCut ends a read of the stream that begins before the stream does.
var errCut = errors.New("the stream begins later")

// Read calls visit for at most limit messages from a position on, as eventlog.Log.Read does. If
// the stream begins later, it visits commits of the archive, and pending is not zero.
func (l *Log) Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) (pending uint64, err error) {
	began := false
	pending, err = l.Log.Read(ctx, from, limit, maxBytes, func(m eventlog.Message) error {
		if !began && m.Sequence > max(from, 1) && l.store != nil {
			return errCut
		}
		began = true
		return visit(m)
	})
	if !errors.Is(err, errCut) {
		return pending, err
	}
	return 1, l.read(ctx, from, limit, maxBytes, visit)
}

// read is Read for a position before the stream.
func (l *Log) read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) error {
	_, first, err := l.Log.Last(ctx)
	if err == nil && from >= first { // the stream has a hole
		_, err = l.Log.Read(ctx, from, limit, maxBytes, visit)
		return err
	}
	if err != nil {
		return err
	}
	messages, bytes := 0, 0
	err = l.visit(ctx, from, func(c segment.Commit) error {
		if c.Position >= first || messages >= limit || messages > 0 && bytes+len(c.Message) > maxBytes {
			return errFound
		}
		messages++
		bytes += len(c.Message)
		return visit(eventlog.Message{Sequence: c.Position, Data: c.Message, Pending: 1})
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	if err == nil && messages == 0 { // only messages that were no commits were cut
		_, err = l.Log.Read(ctx, first, limit, maxBytes, visit)
	}
	return err
}

// visit calls visit for the commits in the archive from a position on, until visit returns an
// error, which visit returns, or until the archive ends. It returns a BrokenError if the archive does not
// have the commits up to the next one that it has.
func (l *Log) visit(ctx context.Context, from uint64, visit func(segment.Commit) error) error {
	segments, err := l.list(ctx, false)
	if err != nil {
		return err
	}
	at, err := l.find(segments, from)
	if err == nil && at == len(segments) {
		if segments, err = l.list(ctx, true); err == nil {
			at, err = l.find(segments, from)
		}
	}
	if err != nil || at == len(segments) {
		return err
	}
	for _, s := range archive.Chain(segments[at:], segments[at].First) {
		r, err := l.reader(s)
		if err != nil {
			return err
		}
		sequence, err := r.AtPosition(from)
		if err != nil {
			return fmt.Errorf("archive %s: segment %s: %w", l.store, s.Entry.Name, err)
		}
		for c, err := range r.Commits(sequence) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("archive %s: segment %s: %w", l.store, s.Entry.Name, err)
			}
			if c.Position < from {
				continue
			}
			if err := visit(c); err != nil {
				return err
			}
			from = c.Position + 1
		}
	}
	return nil
}

// find returns the index of the first segment whose last commit is not before a position. If no segment has
// it, the next has the position behind it.
func (l *Log) find(segments []archive.Item, position uint64) (index int, err error) {
	index, _ = slices.BinarySearchFunc(segments, position, func(s archive.Item, position uint64) int {
		if err != nil {
			return 0
		}
		var r *segment.Reader
		if r, err = l.reader(s); err == nil && r.Info().Last.Position < position {
			return -1
		}
		return 1
	})
	return index, err
}

// Seek returns the position of the commit that contains a revision: the last commit whose first
// revision is not greater. It is the first commit that can be read if all are later.
func (l *Log) Seek(ctx context.Context, revision uint64) (position uint64, err error) {
	position, err = l.Log.Seek(ctx, revision)
	if err != nil || l.store == nil {
		return position, err
	}
	h, first, err := l.FirstCommit(ctx)
	if err != nil || position > first || h.Sequence == 0 || h.FirstRevision <= revision {
		return position, err
	}
	segments, err := l.list(ctx, false)
	if err != nil || len(segments) == 0 {
		return position, err
	}
	at, _ := slices.BinarySearchFunc(segments, revision, func(s archive.Item, revision uint64) int {
		if err != nil {
			return 0
		}
		var r *segment.Reader
		if r, err = l.reader(s); err == nil && r.Info().Before.Revision < revision {
			return -1
		}
		return 1
	})
	if err != nil {
		return 0, err
	}
	r, err := l.reader(segments[max(at, 1)-1])
	if err != nil {
		return 0, err
	}
	return place(r, revision)
}

// place returns the position of the commit of a segment that contains a revision, or of the one
// nearest to it.
func place(r *segment.Reader, revision uint64) (position uint64, err error) {
	info := r.Info()
	if revision > info.Last.Revision {
		return info.Last.Position, nil
	}
	sequence, err := r.AtRevision(revision)
	switch {
	case errors.Is(err, segment.ErrOutside):
		return info.First.Position, nil
	case err != nil:
		return 0, err
	}
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
			last = m.Sequence
		}
		return refused
	}
	for {
		err := l.archivedPart(ctx, &last, each)
		if err == nil {
			err = l.Log.Follow(ctx, last+1, each)
		}
		var broken *eventlog.BrokenError
		if refused != nil || l.store == nil || !errors.As(err, &broken) {
			return err
		}
		// The stream may have been cut meanwhile.
		if _, first, failed := l.Log.Last(ctx); failed != nil || first <= last+1 {
			return errors.Join(err, failed)
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
		_, begins, err := l.Last(ctx)
		if err == nil {
			err = l.Unavailable()
		}
		if err != nil {
			return err
		}
		if *last+1 < begins {
			return &eventlog.BrokenError{Sequence: *last + 1, Last: begins - 1, What: "neither the stream nor the archive has it"}
		}
		before := *last
		err = l.visit(ctx, *last+1, func(c segment.Commit) error {
			if c.Position >= first {
				return errFound
			}
			return visit(eventlog.Message{Sequence: c.Position, Data: c.Message, Pending: 1})
		})
		if err != nil && !errors.Is(err, errFound) {
			return err
		}
		if *last == before { // what precedes the stream are messages that were no commits
			*last = first - 1
		}
	}
}
