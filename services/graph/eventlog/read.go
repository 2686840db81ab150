package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Read calls visit for at most limit messages from a sequence on, in order, and stops when
// they have maxBytes together. It needs no consumer, and does not wait for more messages.
// pending is the number of messages behind the last one that was visited.
//
// Unlike Follow it skips sequences without a message. If the stream is replicated, the
// server that answers may lag behind the others.
func (l *Log) Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(Message) error) (pending uint64, err error) {
	pending, err = bus.ReadDirect(ctx, l.js.Conn(), bus.DirectRead{Stream: bus.LogStream(l.realm), From: from, Batch: limit, MaxBytes: maxBytes},
		func(m bus.DirectMessage) error {
			return visit(Message{Sequence: m.Sequence, Data: m.Data, Pending: m.Pending})
		})
	if err != nil {
		return 0, fmt.Errorf("log of realm %s: %w", l.realm, err)
	}
	return pending, nil
}

// Seek returns the sequence of the commit that contains a revision: the last commit whose
// first revision is not greater.
func (l *Log) Seek(ctx context.Context, revision uint64) (sequence uint64, err error) {
	last, first, err := l.Last(ctx)
	if err != nil {
		return 0, err
	}
	low, high := max(first, 1), max(last, first, 1)
	for low < high {
		middle := high - (high-low)/2
		at, begins, err := l.beginning(ctx, middle, high)
		switch {
		case err != nil:
			return 0, err
		case at != 0 && begins <= revision:
			low = at
		default: // no commit can be read from middle to high, or the first begins too late
			high = middle - 1
		}
	}
	return low, nil
}

// beginning returns the sequence and the first revision of the first commit from
// low to high that can be read, zeros if there is none.
func (l *Log) beginning(ctx context.Context, low, high uint64) (sequence, revision uint64, err error) {
	for at := low; at <= high; at++ {
		m, err := l.message(ctx, at)
		switch {
		case errors.Is(err, ErrNotFound):
			continue
		case err != nil:
			return 0, 0, err
		}
		if h, foreign := l.keys.Check(m); foreign == "" {
			return at, h.FirstRevision, nil
		}
	}
	return 0, 0, nil
}
