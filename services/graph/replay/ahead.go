package replay

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Bounds of what is decoded ahead.
const (
	maxAhead      = 64      // messages
	maxAheadBytes = 4 << 20 // of commits
)

// message is a message of the log that is decoded ahead.
type message[T any] struct {
	eventlog.Message
	decoded chan struct{} // closed when the message is decoded
	content T
	err     error // why it cannot be decoded
}

// Source is a log to read: an eventlog.Log.
type Source interface {
	// Follow calls visit for the messages from a sequence of the stream on, also for those
	// that are appended later, until visit returns an error or ctx ends.
	Follow(ctx context.Context, from uint64, visit func(eventlog.Message) error) error
}

// Log is a log that is compared with a state and replayed: an eventlog.Log, or one with its
// archive (package wholelog).
type Log interface {
	Source
	// Last returns the sequence in the stream of the last message, and of the first that can
	// be read.
	Last(ctx context.Context) (last, first uint64, err error)
	// Get returns the commit at a sequence of the stream.
	Get(ctx context.Context, sequence uint64) ([]byte, error)
	Created() int64
	Keys() *eventlog.Keys
	Realm() string
}

var _ Log = (*eventlog.Log)(nil)

// readAhead is Source.Follow with messages that are decoded ahead, several at a time
// and up to a bound. If decode fails for a message, readAhead visits the messages before
// it and returns an eventlog.BrokenError, or the eventlog.NewerError that decode returned.
func readAhead[T any](
	ctx context.Context, log Source, from uint64, decode func(eventlog.Message) (T, error), visit func(eventlog.Message, T) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	room := semaphore.NewWeighted(maxAheadBytes)
	weight := func(m eventlog.Message) int64 { return min(int64(m.Size()), maxAheadBytes) }
	messages := make(chan *message[T], maxAhead)
	var failure error // why reading ended; read only after messages is closed
	go func() {
		defer close(messages)
		failure = log.Follow(ctx, from, func(next eventlog.Message) error {
			if err := room.Acquire(ctx, weight(next)); err != nil {
				return err
			}
			m := &message[T]{Message: next, decoded: make(chan struct{})}
			select {
			case messages <- m:
			case <-ctx.Done():
				return ctx.Err()
			}
			go func() {
				defer close(m.decoded)
				m.content, m.err = decode(m.Message)
			}()
			return nil
		})
	}()
	defer func() {
		cancel()
		for m := range messages { // drain it: when it is closed, failure is complete
			<-m.decoded
		}
	}()
	for m := range messages {
		<-m.decoded
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(m.err, new(*eventlog.NewerError)):
			return m.err
		case m.err != nil:
			return &eventlog.BrokenError{Position: m.Position, What: m.err.Error()}
		}
		if err := visit(m.Message, m.content); err != nil {
			return err
		}
		room.Release(weight(m.Message))
	}
	return failure
}
