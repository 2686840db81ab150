package recording

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/api/streams"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

// Log is a recorded log. It is safe for concurrent use.
type Log struct {
	r    *segment.Reader
	info segment.Info
	keys *eventlog.Keys
}

var (
	_ replay.Source     = (*Log)(nil)
	_ streams.LogReader = (*Log)(nil)
	_ past.Log          = (*Log)(nil)
)

// Open opens a recorded log of a size in bytes. The errors are those of segment.Open.
func Open(in io.ReaderAt, size int64) (*Log, error) {
	r, err := segment.Open(in, size)
	if err != nil {
		return nil, err
	}
	info := r.Info()
	return &Log{r: r, info: info, keys: eventlog.Unkeyed(fmt.Sprintf("%x", info.RealmID))}, nil
}

// Info describes the recording.
func (l *Log) Info() segment.Info { return l.info }

// Begins reports whether the recording begins with the first commit of its realm. Only then
// can it be folded.
func (l *Log) Begins() bool { return l.info.Before.Sequence == 0 }

// Readable implements streams.LogReader. A recording that begins with the first commit of its realm
// begins at position 1, also if the stream has other messages before that commit.
func (l *Log) Readable(context.Context) (eventlog.Readable, error) {
	e := eventlog.Readable{First: l.info.First.Position, Last: l.info.Last.Position}
	if l.Begins() {
		e.First = 1
	}
	return e, nil
}

// Keys implements streams.LogReader.
func (l *Log) Keys() *eventlog.Keys { return l.keys }

// Skips implements streams.LogReader. A recording has no commits that replicas skip.
func (*Log) Skips(context.Context, eventlog.Message, *eventlog.Header) (string, error) {
	return "", nil
}

// Seek implements streams.LogReader.
func (l *Log) Seek(_ context.Context, revision uint64) (position uint64, err error) {
	return l.r.SeekRevision(revision)
}

// SeekTime implements past.Log.
func (l *Log) SeekTime(_ context.Context, t lifecycle.Time) (position uint64, err error) {
	sequence, err := l.r.AtTime(t)
	if errors.Is(err, segment.ErrOutside) {
		return l.info.First.Position, nil
	}
	if err != nil {
		return 0, err
	}
	for c, err := range l.r.Commits(sequence) {
		return c.Position, err
	}
	return 0, fmt.Errorf("commit %d: %w", sequence, segment.ErrOutside)
}

// Read implements streams.LogReader.
func (l *Log) Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) (pending uint64, err error) {
	messages, bytes := 0, 0
	err = l.each(ctx, from, func(m eventlog.Message) (more bool, err error) {
		if err := visit(m); err != nil {
			return false, err
		}
		messages, bytes, pending = messages+1, bytes+len(m.Data), m.Pending
		return messages < limit && bytes < maxBytes, nil
	})
	if err != nil {
		return 0, err
	}
	return pending, nil
}

// Follow implements replay.Source. Behind the last commit it waits until ctx ends.
func (l *Log) Follow(ctx context.Context, from uint64, visit func(eventlog.Message) error) error {
	err := l.each(ctx, from, func(m eventlog.Message) (bool, error) { return true, visit(m) })
	if err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// each calls visit for the messages from a position on, until visit returns false or an
// error.
func (l *Log) each(ctx context.Context, from uint64, visit func(eventlog.Message) (more bool, err error)) error {
	if from > l.info.Last.Position {
		return nil
	}
	sequence, err := l.r.AtPosition(from)
	if err != nil {
		return err
	}
	for c, err := range l.r.Commits(sequence) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		more, err := visit(eventlog.Message{Position: c.Position, Data: c.Message, Pending: l.info.Last.Sequence - c.Sequence})
		if err != nil || !more {
			return err
		}
	}
	return nil
}
