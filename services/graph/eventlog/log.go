package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	newest  atomic.Uint64 // the newest position of those that were appended or followed
	known   atomic.Uint64 // the newest position at which the stream is known to have had a message

	chain      func() Chain // at the end of a state; nil if it is not known
	superseded superseded
	begun      bool // by Begin

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

// Begin creates the log of a realm that continues another log: its first message gets the
// position first of the stream. See bus.BeginLog.
func Begin(ctx context.Context, js jetstream.JetStream, realm string, replicas int, first uint64, keys *Keys) (*Log, error) {
	l, err := newLog(js, realm, keys)(bus.BeginLog(ctx, js, realm, replicas, first))
	if err == nil {
		l.begun = true
	}
	return l, err
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

// Report sets the logger to which Follow reports why it cannot follow the log, and which messages
// a NATS server lacks. A reason is not reported twice in a row. Report must be called before
// Follow.
func (l *Log) Report(to *slog.Logger) { l.logger = to }

// Raise has more servers store the stream, if it is stored by fewer than replicas, and returns by how many it was stored.
// The servers copy it in the background. Raise must be called before Follow.
func (l *Log) Raise(ctx context.Context, replicas int) (before int, err error) {
	info, err := l.info(ctx)
	if err != nil {
		return 0, err
	}
	c := info.Config
	if before = c.Replicas; before >= replicas {
		return before, nil
	}
	c.Replicas = replicas
	stream, err := l.js.UpdateStream(ctx, c)
	if err != nil {
		return before, fmt.Errorf("log of realm %s: stream %s: %w", l.realm, c.Name, err)
	}
	l.stream = stream
	return before, nil
}

// MaxLag returns for how long the log may end before a message that is known to be in it: a
// server that has become the leader of a replicated stream has to catch up. MaxLag is zero for
// a stream on one server. Append waits for 30 s in either case.
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
var ErrGone = errors.New("the stream of the log was deleted or created again, or the NATS server has left it out at its start (its log says so)")

// Readable is the part of a log that can be read at one time: the positions of its first and its last message.
type Readable struct {
	First, Last uint64
	// OlderSequence is the number of the last commit before a gap that precedes the first message; zero if nothing
	// precedes it.
	OlderSequence uint64
	// OlderRevision returns the last revision of this commit, which it reads from the archive; zero if that cannot be read
	// now. It is nil if OlderSequence is zero.
	OlderRevision func(context.Context) uint64
	// Unavailable is why messages before the first cannot be read now, although they may exist; nil if there are none.
	Unavailable error
}

// Last returns the position of the last message, and the first that is kept.
func (l *Log) Last(ctx context.Context) (last, first uint64, err error) {
	info, err := l.info(ctx)
	if err != nil {
		return 0, 0, err
	}
	raise(&l.known, info.State.LastSeq)
	return info.State.LastSeq, info.State.FirstSeq, nil
}

// HadMessages reports whether the stream has messages, or had some.
func (l *Log) HadMessages(ctx context.Context) (bool, error) {
	info, err := l.info(ctx)
	if err != nil {
		return false, err
	}
	return bus.HadMessages(info), nil
}

// ErrNotFound is returned by Get for a position at which there is no message. On a cluster the
// NATS server that leads the stream does not have it.
var ErrNotFound = errors.New("no such message in the log")

// ErrCut is wrapped, with ErrNotFound, by the error for a commit that was cut from the stream and
// that the archive does not have: see package wholelog.
var ErrCut = errors.New("the commit was cut from the stream of the log")

// ErrForeign is returned by Get for a position at which there is a message that is no
// commit of the realm: see Keys.Check.
var ErrForeign = errors.New("the message is no commit of the realm")

// ErrOtherSecret is wrapped, with ErrForeign, by the error of Get for a message that looks like a
// commit which was appended with a secret that this process does not have: see Keys.Resembles.
var ErrOtherSecret = errors.New("it looks like a commit that was appended with another secret")

// Get reads the commit at a position of the stream. It fails with ErrNotFound or
// ErrForeign if there is none.
func (l *Log) Get(ctx context.Context, position uint64) ([]byte, error) {
	m, err := l.Message(ctx, position)
	if err != nil {
		return nil, err
	}
	if _, foreign := l.keys.Check(m); foreign != "" {
		if l.keys.Resembles(m) {
			return nil, fmt.Errorf("log of realm %s: sequence %d: %w: %s; %w", l.realm, position, ErrForeign, foreign, ErrOtherSecret)
		}
		return nil, fmt.Errorf("log of realm %s: sequence %d: %w: %s", l.realm, position, ErrForeign, foreign)
	}
	commit, err := envelope.Open(m.Data)
	if err != nil {
		return nil, fmt.Errorf("log of realm %s: sequence %d: %w", l.realm, position, err)
	}
	return commit, nil
}

// Message reads the message at a position of the stream, which need not be a commit. It fails with
// ErrNotFound if there is none. Any server with a copy of the stream may answer first. A copy that
// lags or is damaged may lack a message, so only the leader decides that there is none.
func (l *Log) Message(ctx context.Context, position uint64) (Message, error) {
	m, err := l.stream.GetMsg(ctx, position)
	if errors.Is(err, jetstream.ErrMsgNotFound) && l.MaxLag() > 0 {
		var led bus.DirectMessage
		if led, err = bus.ReadFromLeader(ctx, l.js.Conn(), bus.LeaderRead{Stream: bus.LogStream(l.realm), Sequence: position}); err == nil {
			return Message{Position: position, Data: led.Data}, nil
		}
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Message{}, fmt.Errorf("log of realm %s: sequence %d: %w", l.realm, position, ErrNotFound)
	}
	if err != nil {
		return Message{}, fmt.Errorf("log of realm %s: sequence %d: %w", l.realm, position, err)
	}
	return Message{Position: position, Data: m.Data}, nil
}

// Message is a message of the log.
type Message struct {
	Position uint64 // in the stream: what NATS calls the sequence of the message
	// Data is a sealed commit: see Open.
	Data []byte
	// Pending is how many more messages were in the stream when this one was delivered.
	Pending uint64
	// Chained: the message is not one of the stream, but of a log that the realm continues. The
	// chain of checksums authenticates it, not the realm's key.
	Chained bool
}

// Size returns the approximate size of the commit in bytes.
func (m Message) Size() int { return envelope.Size(m.Data) }

// Open returns the commit, which may share the memory of m.Data and of *room. *room grows
// if necessary. The error is envelope.ErrMalformed.
func (m Message) Open(room *[]byte) (commit []byte, err error) {
	return envelope.OpenInto(room, m.Data)
}
