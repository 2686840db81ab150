package eventlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"

	"github.com/coppice-gc/coppice/internal/bus"
)

var (
	// ErrFenced is returned when another writer has appended at the expected position.
	// The commit is not in the log, and never will be.
	ErrFenced = errors.New("another writer has appended to the log")
	// ErrOutcomeUnknown is returned when it is unknown whether the commit is in the log. It
	// may be stored, or may still be stored later: no reply may depend on either.
	ErrOutcomeUnknown = errors.New("it is not known whether the commit is in the log")
)

// Times of an append.
const (
	attemptTimeout = 2 * time.Second
	firstPause     = 5 * time.Millisecond
	longestPause   = 500 * time.Millisecond
	// maxLag is for how long the stream may end before a position that is known to be in
	// it: a NATS server that has become the stream's leader has to catch up.
	maxLag = 30 * time.Second
)

// Append appends a commit behind the expected position of the stream. On success the
// commit is on disk at the returned position. That is expected+1, or later if foreign
// messages stand there: messages that are no commits of the realm do not prevent an
// append, and the commit is appended behind them.
//
// An attempt without an acknowledgement proves nothing: the message may be in the stream,
// or may still be in flight, so that reading the end of the stream does not help. Append
// therefore publishes the same message again, with the same expected position, until it
// is acknowledged, or refused because the stream has moved on. In the latter case Append
// reads the commit at that position and compares the ids. If ctx ends first, the error wraps
// ErrOutcomeUnknown, unless it is certain that no attempt is stored or will be.
//
// A refusal proves nothing while no message is stored at the position: the leader of a
// cluster also refuses because of messages that it has accepted and may still lose.
//
// If the message at the expected position was appended or followed by this Log, the server
// appends only behind that message. If the stream has lost it, as after a purge, nothing is
// appended, and the error is a BrokenError.
func (l *Log) Append(ctx context.Context, expected uint64, id [16]byte, commit []byte) (position uint64, err error) {
	return l.Send(expected, id, commit)(ctx)
}

// Send starts to append a commit. It has been published when Send returns; wait waits
// for the outcome, as Append does. Until wait has returned, the commit must not be
// changed and no other commit may be sent.
func (l *Log) Send(expected uint64, id [16]byte, commit []byte) (wait func(context.Context) (position uint64, err error)) {
	message, move, err := l.keys.seal(commit, expected+1)
	if err != nil {
		return func(context.Context) (uint64, error) {
			return 0, fmt.Errorf("log of realm %s: append: %w", l.realm, err)
		}
	}
	a := &appending{l: l, id: id, expected: expected, message: message, move: func(position uint64) error {
		move(position)
		return nil
	}}
	l.pending.begin()
	err = l.send(expected, message)
	return func(ctx context.Context) (uint64, error) {
		if err == nil {
			err = l.acknowledgement(ctx, expected)
		}
		err := a.wait(ctx, err)
		if err == nil {
			l.has(a.expected + 1)
		}
		l.pending.end()
		return a.expected + 1, err
	}
}

// appending is a commit that is appended.
type appending struct {
	l        *Log
	id       [16]byte
	expected uint64
	message  []byte
	move     func(position uint64) error // changes message
	doubt    bool                        // an attempt behind expected may have been stored
}

// wait publishes the message until the outcome is known. err is the result of the first
// attempt.
func (a *appending) wait(ctx context.Context, err error) error {
	l := a.l
	pause := firstPause
	var behind time.Time // since when the log has been behind
	for {
		moved := false
		switch bus.Classify(err) {
		case bus.Stored:
			return nil
		case bus.Conflict:
			a.doubt = true
			if moved, err = a.conflict(ctx); err == nil && !moved || errors.Is(err, ErrFenced) {
				return err
			}
			if errors.Is(err, ErrGone) {
				return fmt.Errorf("log of realm %s: append: %w", l.realm, err)
			}
		case bus.Refused:
			if !a.doubt {
				return fmt.Errorf("log of realm %s: append: %w", l.realm, err)
			}
		case bus.Ambiguous:
			a.doubt = true
		}
		if errors.Is(err, ErrNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse) {
			if behind.IsZero() {
				behind = time.Now()
			}
			if err := l.lost(ctx, a.expected, time.Since(behind) > l.maxLag); err != nil {
				return fmt.Errorf("log of realm %s: append: %w", l.realm, err)
			}
		}
		if moved {
			pause = 0
		} else if err != nil {
			l.pending.failed(err)
		}
		select {
		case <-ctx.Done():
			if !a.doubt {
				return fmt.Errorf("log of realm %s: append: %w", l.realm, cmp.Or(err, ctx.Err()))
			}
			return fmt.Errorf("log of realm %s: append: %w: %w", l.realm, ErrOutcomeUnknown, err)
		case <-time.After(pause):
		}
		pause = min(max(2*pause, firstPause), longestPause)
		if err = l.send(a.expected, a.message); err == nil {
			err = l.acknowledgement(ctx, a.expected)
		}
	}
}

// conflict reads the message at the position of the commit. It returns nil if that is the
// commit itself, and ErrFenced if it is another commit. If only messages stand there that
// are no commits, or that replicas skip, it moves the commit behind them: no attempt at the old position can be
// stored any more. What replicas skip follows from the commit before. If that is not the one that this commit
// continues, the log is not the one of this writer any more, and the error is ErrFenced or ErrGone.
func (a *appending) conflict(ctx context.Context) (moved bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	m, err := a.l.Message(ctx, a.expected+1)
	if err != nil {
		return false, err
	}
	end, before, skipped := a.expected, a.before(), false
	look := func(m Message) error {
		switch h, foreign := a.l.keys.Check(m); {
		case foreign != "" || before.Skips(&h) != "":
			end, skipped = m.Position, skipped || foreign == ""
			return nil
		case h.ID == a.id:
			return errFound
		}
		return ErrFenced
	}
	if err = look(m); err == nil {
		_, err = a.l.Read(ctx, end+1, readMessages, readBytes, look) // more of them, if there are
	}
	switch {
	case errors.Is(err, errFound):
		a.expected = end
		return false, nil
	case errors.Is(err, ErrFenced):
		return false, ErrFenced
	case end == a.expected:
		return false, err
	}
	if skipped {
		if err := a.continues(ctx, &before); err != nil {
			return false, err
		}
	}
	a.l.has(end)
	a.expected, a.doubt = end, false
	return true, a.move(end + 1)
}

// before returns the chain that the commit continues; a zero one for the first commit of a realm, which any
// other commit precedes.
func (a *appending) before() Chain {
	h, _ := a.l.keys.Check(Message{Position: a.expected + 1, Data: a.message})
	if h.Sequence <= 1 || a.l.begun {
		return Chain{}
	}
	return ChainBefore(&h)
}

// continues returns nil if the stream is the one that was opened, and the commit before a.expected in it
// is the last one of the chain.
func (a *appending) continues(ctx context.Context, chain *Chain) error {
	if _, err := a.l.info(ctx); err != nil {
		return err
	}
	for at := a.expected; at > 0 && a.expected-at < maxForeign; at-- {
		m, err := a.l.Message(ctx, at)
		if errors.Is(err, ErrNotFound) {
			return ErrFenced
		}
		if err != nil {
			return err
		}
		h, foreign := a.l.keys.Check(m)
		if foreign != "" {
			continue
		}
		commit, err := m.Open(new([]byte))
		switch {
		case err != nil:
			return err
		case Checksum(commit) == chain.Checksum:
			return nil
		case chain.Skips(&h) == "":
			return ErrFenced
		}
	}
	return ErrFenced
}

// errFound ends a read at the commit that was looked for.
var errFound = errors.New("found")

// lost returns an error if the stream is not the one that was opened, or has lost the
// message at the expected position.
func (l *Log) lost(ctx context.Context, expected uint64, long bool) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	last, _, err := l.Last(ctx)
	switch {
	case errors.Is(err, ErrGone):
		return err
	case err == nil && last < expected && long:
		return &BrokenError{Position: expected, What: fmt.Sprintf("it was there, and now the log ends at %d", last)}
	case err == nil && last >= expected && l.had(expected):
		if _, err := l.Message(ctx, expected); errors.Is(err, ErrNotFound) {
			return &BrokenError{Position: expected, What: "it was there, and now the stream has no message at this sequence, as after a purge"}
		}
	}
	return nil
}

// Confirm looks for a message. If the stream has it now and loses it later, nothing is appended behind it.
func (l *Log) Confirm(ctx context.Context, position uint64) error {
	_, err := l.Message(ctx, position)
	if err == nil {
		l.has(position)
	}
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return err
}

// has notes that the stream has a message.
func (l *Log) has(position uint64) {
	raise(&l.newest, position)
	raise(&l.known, position)
}

// raise sets a value that is lower.
func raise(to *atomic.Uint64, value uint64) {
	for is := to.Load(); value > is && !to.CompareAndSwap(is, value); {
		is = to.Load()
	}
}

// had reports whether the stream is known to have had a message, which was the newest at that time.
func (l *Log) had(position uint64) bool { return position > 0 && l.newest.Load() == position }

// send makes an attempt.
func (l *Log) send(expected uint64, message []byte) error {
	nc := l.js.Conn()
	if l.answers == nil {
		inbox := nc.NewInbox()
		sub, err := nc.SubscribeSync(inbox + ".*")
		if err != nil {
			return err
		}
		l.inbox, l.answers = inbox+".", sub
	}
	l.attempt++
	at := strconv.FormatUint(expected, 10)
	header := nats.Header{
		jetstream.ExpectedStreamHeader:  {bus.LogStream(l.realm)},
		jetstream.ExpectedLastSeqHeader: {at},
	}
	if l.had(expected) {
		// The last sequence of a stream stays when the stream is purged. That of its only subject does not.
		header[jetstream.ExpectedLastSubjSeqHeader] = []string{at}
	}
	return nc.PublishMsg(&nats.Msg{Subject: bus.LogSubject(l.realm), Reply: l.reply(), Data: message, Header: header})
}

// reply is the subject for the acknowledgement of the last attempt.
func (l *Log) reply() string { return l.inbox + strconv.FormatUint(l.attempt, 10) }

// acknowledgement waits for the acknowledgement of the last attempt. Acknowledgements of earlier
// attempts add no information. "No responders" does not say to which attempt it belongs,
// and leaves the attempt in doubt.
func (l *Log) acknowledgement(ctx context.Context, expected uint64) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	for {
		m, err := l.answers.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return jetstream.ErrNoStreamResponse
		case err != nil:
			return err
		case m.Subject == l.reply():
			return acknowledged(m, expected+1)
		}
	}
}

// acknowledged returns nil if an acknowledgement names the position of the message.
func acknowledged(m *nats.Msg, position uint64) error {
	if at := gjson.GetBytes(m.Data, "seq").Uint(); at != 0 {
		if at != position {
			return fmt.Errorf("stored at sequence %d, expected %d", at, position)
		}
		return nil
	}
	var refusal struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &refusal); err != nil || refusal.Error == nil {
		return fmt.Errorf("%w: %q", jetstream.ErrInvalidJSAck, m.Data)
	}
	return refusal.Error
}
