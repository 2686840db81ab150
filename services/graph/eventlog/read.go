package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Read calls visit for at most limit messages from a position on, in order, and stops when
// they have maxBytes together. It needs no consumer, and does not wait for more messages.
// pending is the number of messages behind the last one that was visited.
//
// Unlike Follow it skips positions without a message. If the stream is replicated, the
// server that answers may lag behind the others: where its copy ends before a message that the
// stream is known to have had, the leader of the stream is asked for the next one.
func (l *Log) Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(Message) error) (pending uint64, err error) {
	next, stream, nc := max(from, 1), bus.LogStream(l.realm), l.js.Conn()
	count := func(m bus.DirectMessage) error {
		next, limit, maxBytes = m.Sequence+1, limit-1, maxBytes-len(m.Data)
		return visit(Message{Position: m.Sequence, Data: m.Data, Pending: m.Pending})
	}
	for {
		pending, err = bus.ReadDirect(ctx, nc, bus.DirectRead{Stream: stream, From: next, Batch: limit, MaxBytes: maxBytes}, count)
		if err != nil || pending > 0 || l.MaxLag() == 0 {
			break
		}
		known := l.known.Load()
		if pending = known - min(known, next-1); pending == 0 || limit <= 0 || maxBytes <= 0 {
			break
		}
		var m bus.DirectMessage
		m, err = bus.ReadFromLeader(ctx, nc, bus.LeaderRead{Stream: stream, Next: next})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, nil // what is known was cut, or is lost
		}
		if err == nil {
			m.Pending = known - min(known, m.Sequence)
			pending, err = m.Pending, count(m)
		}
		if err != nil || limit <= 0 || maxBytes <= 0 {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("log of realm %s: %w", l.realm, err)
	}
	return pending, nil
}

// errFilled ends a read at the end of a hole.
var errFilled = errors.New("the end of the hole")

// maxFilled is the maximum number of positions that Fill asks the leader of the stream for.
const maxFilled = 1000

// Fill is Read for a hole in a copy of the stream. It visits the messages that the leader of the stream
// has there. If the leader has none, Fill visits those behind the hole.
func (l *Log) Fill(ctx context.Context, from uint64, limit, maxBytes int, visit func(Message) error) error {
	next := from
	_, err := l.Read(ctx, from, 1, 1, func(m Message) error {
		next = m.Position
		return errFilled
	})
	if err != nil && !errors.Is(err, errFilled) {
		return err
	}
	messages := 0
	for at := from; at < min(next, from+maxFilled) && messages < limit; at++ {
		m, err := l.Message(ctx, at)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		messages++
		if err := visit(m); err != nil {
			return err
		}
	}
	if messages > 0 {
		return nil
	}
	_, err = l.Read(ctx, from, limit, maxBytes, visit)
	return err
}

// Seek returns the position in the stream of the commit that contains a revision: the last
// commit whose first revision is not greater. If there is none, it returns the first position
// of the stream.
func (l *Log) Seek(ctx context.Context, revision uint64) (position uint64, err error) {
	return l.seek(ctx, func(h *Header) bool { return h.FirstRevision <= revision })
}

// SeekCommit returns the position of the last commit of the stream whose sequence is not
// greater. If there is none, it returns the first position of the stream.
func (l *Log) SeekCommit(ctx context.Context, sequence uint64) (position uint64, err error) {
	return l.seek(ctx, func(h *Header) bool { return h.Sequence <= sequence })
}

// SeekTime returns the position of the last commit that is not later than a time. If there is none,
// it returns the first position of the stream.
func (l *Log) SeekTime(ctx context.Context, t lifecycle.Time) (position uint64, err error) {
	return l.seek(ctx, func(h *Header) bool { return h.Time <= t })
}

// seek returns the position of the last commit for which before is true. It is true for no
// commit behind one for which it is false.
func (l *Log) seek(ctx context.Context, before func(*Header) bool) (position uint64, err error) {
	last, first, err := l.Last(ctx)
	if err != nil {
		return 0, err
	}
	low, high := max(first, 1), max(last, first, 1)
	for low < high {
		middle := high - (high-low)/2
		at, h, err := l.nextCommit(ctx, middle, high)
		switch {
		case err != nil:
			return 0, err
		case at != 0 && before(&h):
			low = at
		default: // no commit can be read from middle to high, or the first is too late
			high = middle - 1
		}
	}
	return low, nil
}

// nextCommit returns the position and the header of the first commit from low to high that
// can be read and is not skipped, zeros if there is none.
func (l *Log) nextCommit(ctx context.Context, low, high uint64) (position uint64, h Header, err error) {
	for at := low; at <= high; at++ {
		m, err := l.Message(ctx, at)
		switch {
		case errors.Is(err, ErrNotFound):
			continue
		case err != nil:
			return 0, h, err
		}
		h, foreign := l.keys.Check(m)
		if foreign == "" {
			foreign, err = l.Skips(ctx, m, &h)
		}
		if foreign == "" && err == nil {
			foreign, err = l.precedes(ctx, m, &h)
		}
		if foreign == "" || err != nil {
			return at, h, err
		}
	}
	return 0, h, nil
}
