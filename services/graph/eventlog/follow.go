package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Follow calls visit for every message from a position on, in order, and waits for more. It
// returns when visit fails, when ctx ends, or when the stream is no longer the one that was
// opened. If the stream contains messages according to its server, and the server delivers
// none of them for a minute, the error is a BrokenError.
//
// It reads stored messages by direct get, and uses a consumer for messages that are
// appended later. If no consumer can be created, for instance because the stream has
// reached the server's limit of consumers, it reads every half second instead. In every
// case it checks the positions, so that it never skips or repeats a message.
func (l *Log) Follow(ctx context.Context, from uint64, visit func(Message) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	var at progress
	at.last.Store(from - 1)
	wg.Go(func() { cancel(l.guard(ctx, &at)) })
	reported := ""
	for {
		last, err := l.follow(ctx, from, at.record(visit))
		var v visitError
		switch {
		case errors.As(err, &v):
			return v.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if err != nil && err.Error() != reported {
			reported = err.Error()
			l.logger.Warn("cannot follow the log; trying again", "after", last, "every", longestPause, "reason", err)
		}
		from = last + 1
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(longestPause):
		}
	}
}

// progress is how far a reader of the log has come.
type progress struct {
	last     atomic.Uint64 // the last position that was visited
	visiting atomic.Bool   // while visit runs, which may take long
}

func (p *progress) record(visit func(Message) error) func(Message) error {
	return func(m Message) error {
		p.visiting.Store(true)
		defer p.visiting.Store(false)
		err := visit(m)
		p.last.Store(m.Position)
		return err
	}
}

// guard returns ErrGone when the stream is gone. A consumer does not report that: it is
// created again on a new stream of the same name, and waits for the next position. It
// returns a BrokenError when the stream has messages that its server does not deliver: a
// damaged file of the stream looks like this.
func (l *Log) guard(ctx context.Context, at *progress) error {
	tick := time.NewTicker(min(guardInterval, l.stall/4))
	defer tick.Stop()
	seen, since := at.last.Load(), time.Now()
	for {
		last, _, err := l.Last(ctx)
		if errors.Is(err, ErrGone) {
			return fmt.Errorf("log of realm %s: %w", l.realm, err)
		}
		now := at.last.Load()
		switch {
		case err != nil || now != seen || now >= last || at.visiting.Load():
			seen, since = now, time.Now()
		case time.Since(since) > l.stall:
			return fmt.Errorf("log of realm %s: %w", l.realm, &BrokenError{
				Position: now + 1,
				What:     fmt.Sprintf("the stream ends at sequence %d, and the NATS server has delivered nothing after sequence %d for %v", last, now, l.stall),
			})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

const (
	// guardInterval is the time between two checks of the stream.
	guardInterval = 5 * time.Second
	// maxStall is the time after which messages that are not delivered count as lost. A new
	// leader of a replicated stream may need 9 s.
	maxStall = time.Minute
)

// visitError distinguishes a failure of visit from one of reading.
type visitError struct{ error }

// follow reads to the end of the log, and then the messages that a consumer delivers.
func (l *Log) follow(ctx context.Context, from uint64, visit func(Message) error) (last uint64, err error) {
	last = from - 1
	for more := true; more; {
		if more, err = l.read(ctx, &last, visit); err != nil {
			return last, err
		}
	}
	consumer, err := l.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       last + 1,
		InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return last, fmt.Errorf("a consumer cannot be created: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(256, 32<<20), jetstream.PullHeartbeat(5*time.Second), jetstream.PullExpiry(30*time.Second))
	if err != nil {
		return last, err
	}
	defer messages.Stop()
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	for {
		m, err := messages.Next()
		if err != nil {
			return last, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return last, err
		}
		if err := l.next(ctx, &last, Message{Position: meta.Sequence.Stream, Data: m.Data(), Pending: meta.NumPending}, visit); err != nil {
			return last, err
		}
	}
}

// Bounds of one direct get.
const (
	readMessages = 1024
	readBytes    = 8 << 20
)

// read visits messages behind last by one direct get, and reports whether more messages
// follow.
func (l *Log) read(ctx context.Context, last *uint64, visit func(Message) error) (more bool, err error) {
	before := *last
	pending, err := bus.ReadDirect(ctx, l.js.Conn(), bus.DirectRead{
		Stream: bus.LogStream(l.realm), From: before + 1, Batch: readMessages, MaxBytes: readBytes,
	}, func(m bus.DirectMessage) error {
		return l.next(ctx, last, Message{Position: m.Sequence, Data: m.Data, Pending: m.Pending}, visit)
	})
	return pending > 0 && *last > before, err
}

// next visits a message. If messages between last and this one were not delivered, it first
// reads and visits those that the NATS server which leads the stream has: only a damaged copy of
// the log lacks them.
func (l *Log) next(ctx context.Context, last *uint64, m Message, visit func(Message) error) error {
	if l.MaxLag() > 0 && m.Position > *last+1 {
		l.logger.Warn("a NATS server has delivered the log without some of its messages; they are read from the leader of the stream", "first", *last+1, "last", m.Position-1)
		for m.Position > *last+1 {
			led, err := bus.ReadFromLeader(ctx, l.js.Conn(), bus.LeaderRead{Stream: bus.LogStream(l.realm), Sequence: *last + 1})
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err == nil {
				err = next(last, Message{Position: *last + 1, Data: led.Data, Pending: m.Pending + m.Position - *last - 1}, visit)
			}
			if err != nil {
				return err
			}
		}
	}
	l.has(m.Position)
	return next(last, m, visit)
}

// next visits a message, which must be the one behind last.
func next(last *uint64, m Message, visit func(Message) error) error {
	switch {
	case m.Position <= *last:
		return fmt.Errorf("sequence %d again, after %d", m.Position, *last)
	case m.Position != *last+1:
		return visitError{&BrokenError{Position: *last + 1, What: fmt.Sprintf("it is missing; the next is %d", m.Position)}}
	}
	if err := visit(m); err != nil {
		return visitError{err}
	}
	*last = m.Position
	return nil
}
