package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/envelope"
)

// Log is a realm's log. It is safe for concurrent use, but for appends, of which
// there is one at a time.
type Log struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	realm  string
	keys   *Keys
	// created is when the stream was created, Unix nanoseconds.
	created  int64
	patience time.Duration
	logger   *slog.Logger

	pending pending

	inbox   string             // the answers to attempts of appends come behind it
	answers *nats.Subscription // nil before the first
	attempt uint64             // the number of the last
}

// Open opens the log of a realm, whose stream it creates if there is none. keys
// are the realm's.
func Open(ctx context.Context, js jetstream.JetStream, realm string, replicas int, keys *Keys) (*Log, error) {
	return newLog(js, realm, keys)(bus.EnsureLog(ctx, js, realm, replicas))
}

// OpenExisting opens the log of a realm that is known to have one.
func OpenExisting(ctx context.Context, js jetstream.JetStream, realm string, keys *Keys) (*Log, error) {
	return newLog(js, realm, keys)(bus.OpenLog(ctx, js, realm))
}

func newLog(js jetstream.JetStream, realm string, keys *Keys) func(jetstream.Stream, error) (*Log, error) {
	return func(stream jetstream.Stream, err error) (*Log, error) {
		if err != nil {
			return nil, fmt.Errorf("log of realm %s: stream %s: %w", realm, bus.LogStream(realm), err)
		}
		return &Log{
			js: js, stream: stream, realm: realm, keys: keys, created: stream.CachedInfo().Created.UnixNano(), patience: patience,
			logger: slog.New(slog.DiscardHandler),
		}, nil
	}
}

// Report has l report to a logger why it cannot follow the log, once for each
// reason. It must be called before Follow.
func (l *Log) Report(to *slog.Logger) { l.logger = to }

// Patience is how long the log may end before a message that is known to be in it: a
// server that became the leader of a replicated stream has to catch up, and is given
// as long as an append gives it. It is zero for a stream on one server.
func (l *Log) Patience() time.Duration {
	if l.stream.CachedInfo().Config.Replicas <= 1 {
		return 0
	}
	return l.patience
}

// Realm is the name of the realm.
func (l *Log) Realm() string { return l.realm }

// Keys are the realm's.
func (l *Log) Keys() *Keys { return l.keys }

// Created is when the stream was created, in Unix nanoseconds: a stream that
// was made anew under the same name is another log.
func (l *Log) Created() int64 { return l.created }

// ErrGone is returned when the stream is no longer the one that was opened.
var ErrGone = errors.New("the stream of the log was deleted or made anew")

// Last returns the sequence of the last message, and the first that is kept.
func (l *Log) Last(ctx context.Context) (last, first uint64, err error) {
	info, err := l.stream.Info(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, 0, ErrGone
	}
	if err != nil {
		return 0, 0, fmt.Errorf("log of realm %s: %w", l.realm, err)
	}
	if info.Created.UnixNano() != l.created {
		return 0, 0, ErrGone
	}
	return info.State.LastSeq, info.State.FirstSeq, nil
}

// ErrNotFound is returned by Get for a sequence at which there is no message.
var ErrNotFound = errors.New("no such message in the log")

// Get reads one commit, of which it is known that it is one.
func (l *Log) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	m, err := l.message(ctx, sequence)
	if err != nil {
		return nil, err
	}
	commit, err := envelope.Open(m.Data)
	if err != nil {
		return nil, fmt.Errorf("log of realm %s: sequence %d: %w", l.realm, sequence, err)
	}
	return commit, nil
}

// message reads one message.
func (l *Log) message(ctx context.Context, sequence uint64) (Message, error) {
	m, err := l.stream.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Message{}, fmt.Errorf("log of realm %s: sequence %d: %w", l.realm, sequence, ErrNotFound)
	}
	if err != nil {
		return Message{}, fmt.Errorf("log of realm %s: sequence %d: %w", l.realm, sequence, err)
	}
	return Message{Sequence: sequence, Data: m.Data}, nil
}

// Message is a message of the log.
type Message struct {
	Sequence uint64
	// Data stands for a commit: see Open.
	Data []byte
	// Pending is how many more were in the stream when this was delivered.
	Pending uint64
}

// Size is how many bytes the commit has, about.
func (m Message) Size() int { return envelope.Size(m.Data) }

// Open returns the commit, which may share the memory of m.Data and of room. That
// grows if it is not enough. It fails with envelope.ErrMalformed.
func (m Message) Open(room *[]byte) (commit []byte, err error) {
	return envelope.OpenInto(room, m.Data)
}

// Follow calls visit for every message from a sequence on, in order, and waits
// for more, until visit fails or ctx ends, or the stream is no longer the one
// that was opened.
//
// It reads what is in the log by direct get, and uses a consumer only to learn of
// what is appended from then on. If no consumer can be created, as where others have
// used up those that the server allows for a stream, it reads every half second
// instead. What counts is the sequence, which never skips or repeats a message.
func (l *Log) Follow(ctx context.Context, from uint64, visit func(Message) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { cancel(l.guard(ctx)) })
	reported := ""
	for {
		last, err := l.follow(ctx, from, visit)
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

// guard returns ErrGone when the stream is gone. A consumer does not tell: it
// is made anew on a stream of the same name, and waits for the sequence that
// comes next.
func (l *Log) guard(ctx context.Context) error {
	tick := time.NewTicker(guardInterval)
	defer tick.Stop()
	for {
		if _, _, err := l.Last(ctx); errors.Is(err, ErrGone) {
			return fmt.Errorf("log of realm %s: %w", l.realm, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// guardInterval is how often the stream is looked at.
const guardInterval = 5 * time.Second

// visitError tells a failure of visit from one of reading.
type visitError struct{ error }

// follow reads to the end of the log, and then what a consumer delivers.
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
		if err := next(&last, Message{Sequence: meta.Sequence.Stream, Data: m.Data(), Pending: meta.NumPending}, visit); err != nil {
			return last, err
		}
	}
}

// Bounds of one direct get.
const (
	readMessages = 1024
	readBytes    = 8 << 20
)

// read visits messages behind last by one direct get, and reports whether more
// follow them.
func (l *Log) read(ctx context.Context, last *uint64, visit func(Message) error) (more bool, err error) {
	before := *last
	pending, err := bus.ReadDirect(ctx, l.js.Conn(), bus.DirectRead{
		Stream: bus.LogStream(l.realm), From: before + 1, Batch: readMessages, MaxBytes: readBytes,
	}, func(m bus.DirectMessage) error {
		return next(last, Message{Sequence: m.Sequence, Data: m.Data, Pending: m.Pending}, visit)
	})
	return pending > 0 && *last > before, err
}

// next visits a message, which must be the one behind last.
func next(last *uint64, m Message, visit func(Message) error) error {
	switch {
	case m.Sequence <= *last:
		return fmt.Errorf("sequence %d again, after %d", m.Sequence, *last)
	case m.Sequence != *last+1:
		return visitError{&BrokenError{Sequence: *last + 1, What: fmt.Sprintf("it is missing; the next is %d", m.Sequence)}}
	}
	if err := visit(m); err != nil {
		return visitError{err}
	}
	*last = m.Sequence
	return nil
}
