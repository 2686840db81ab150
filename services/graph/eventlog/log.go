package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
)

// Log is a realm's log. It is safe for concurrent use, except that only one append may
// run at a time.
type Log struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	realm  string
	keys   *Keys
	// created is when the stream was created, Unix nanoseconds.
	created int64
	maxLag  time.Duration
	stall   time.Duration // maxStall
	logger  *slog.Logger

	pending pending

	inbox   string             // the subject prefix of acknowledgements
	answers *nats.Subscription // nil before the first
	attempt uint64             // the number of the last
}

// Open opens the log of a realm, and creates its stream if it does not exist. keys are the
// realm's.
func Open(ctx context.Context, js jetstream.JetStream, realm string, replicas int, keys *Keys) (*Log, error) {
	return newLog(js, realm, keys)(bus.EnsureLog(ctx, js, realm, replicas))
}

// OpenExisting opens the log of a realm, and fails if its stream does not exist.
func OpenExisting(ctx context.Context, js jetstream.JetStream, realm string, keys *Keys) (*Log, error) {
	return newLog(js, realm, keys)(bus.OpenLog(ctx, js, realm))
}

func newLog(js jetstream.JetStream, realm string, keys *Keys) func(jetstream.Stream, error) (*Log, error) {
	return func(stream jetstream.Stream, err error) (*Log, error) {
		if err != nil {
			return nil, fmt.Errorf("log of realm %s: stream %s: %w", realm, bus.LogStream(realm), err)
		}
		return &Log{
			js: js, stream: stream, realm: realm, keys: keys, created: stream.CachedInfo().Created.UnixNano(), maxLag: maxLag, stall: maxStall,
			logger: slog.New(slog.DiscardHandler),
		}, nil
	}
}

// Report sets the logger to which l reports why it cannot follow the log, once for each
// reason. It must be called before Follow.
func (l *Log) Report(to *slog.Logger) { l.logger = to }

// MaxLag returns how long the end of the log may be before a message that is known to be
// in it. A server that has become the leader of a replicated stream has to catch up; Append
// waits as long. It is zero for a stream on one server.
func (l *Log) MaxLag() time.Duration {
	if l.stream.CachedInfo().Config.Replicas <= 1 {
		return 0
	}
	return l.maxLag
}

// Realm returns the name of the realm.
func (l *Log) Realm() string { return l.realm }

// Keys returns the keys of the realm.
func (l *Log) Keys() *Keys { return l.keys }

// Created returns when the stream was created, in Unix nanoseconds. It distinguishes the
// stream from a later one with the same name.
func (l *Log) Created() int64 { return l.created }

// ErrGone is returned when the stream is no longer the one that was opened.
var ErrGone = errors.New("the stream of the log was deleted or created again")

// Last returns the sequence of the last message, and the first that is kept.
func (l *Log) Last(ctx context.Context) (last, first uint64, err error) {
	info, err := l.info(ctx)
	if err != nil {
		return 0, 0, err
	}
	return info.State.LastSeq, info.State.FirstSeq, nil
}

// ErrNotFound is returned by Get for a sequence at which there is no message.
var ErrNotFound = errors.New("no such message in the log")

// ErrCut is wrapped, with ErrNotFound, by the error for a commit that was cut from the stream and
// that the archive does not have: see package archived.
var ErrCut = errors.New("the commit was cut from the stream of the log")

// ErrForeign is returned by Get for a sequence at which there is a message that is no
// commit of the realm: see Keys.Check.
var ErrForeign = errors.New("the message is no commit of the realm")

// Get reads the commit at a sequence of the stream. It fails with ErrNotFound or
// ErrForeign if there is none.
func (l *Log) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	m, err := l.message(ctx, sequence)
	if err != nil {
		return nil, err
	}
	if _, foreign := l.keys.Check(m); foreign != "" {
		return nil, fmt.Errorf("log of realm %s: sequence %d: %w: %s", l.realm, sequence, ErrForeign, foreign)
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
	// Data is a sealed commit: see Open.
	Data []byte
	// Pending is how many more messages were in the stream when this one was delivered.
	Pending uint64
}

// Size returns the approximate size of the commit in bytes.
func (m Message) Size() int { return envelope.Size(m.Data) }

// Open returns the commit, which may share the memory of m.Data and of *room. *room grows
// if necessary. The error is envelope.ErrMalformed.
func (m Message) Open(room *[]byte) (commit []byte, err error) {
	return envelope.OpenInto(room, m.Data)
}

// Follow calls visit for every message from a sequence on, in order, and waits for more. It
// returns when visit fails, when ctx ends, or when the stream is no longer the one that was
// opened. If the stream contains messages according to its server, and the server delivers
// none of them for a minute, the error is a BrokenError.
//
// It reads stored messages by direct get, and uses a consumer for messages that are
// appended later. If no consumer can be created, for instance because the stream has
// reached the server's limit of consumers, it reads every half second instead. In every
// case it checks the sequences, so that it never skips or repeats a message.
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
	last     atomic.Uint64 // the last sequence that was visited
	visiting atomic.Bool   // while visit runs, which may take long
}

func (p *progress) record(visit func(Message) error) func(Message) error {
	return func(m Message) error {
		p.visiting.Store(true)
		defer p.visiting.Store(false)
		err := visit(m)
		p.last.Store(m.Sequence)
		return err
	}
}

// guard returns ErrGone when the stream is gone. A consumer does not report that: it is
// created again on a new stream of the same name, and waits for the next sequence. It
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
				Sequence: now + 1,
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

// read visits messages behind last by one direct get, and reports whether more messages
// follow.
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
