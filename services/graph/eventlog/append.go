package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/envelope"
)

var (
	// ErrFenced is returned when another writer was first. The
	// commit is not in the log, and never will be.
	ErrFenced = errors.New("another writer has appended to the log")
	// ErrUnsettled is returned when it could not learn whether the
	// commit is in the log. It may be, or may still come to be: nobody may
	// be told anything that rests on either.
	ErrUnsettled = errors.New("it is not known whether the commit is in the log")
)

// Times of an append.
const (
	attemptTimeout = 2 * time.Second
	firstPause     = 5 * time.Millisecond
	longestPause   = 500 * time.Millisecond
	// patience is how long a log may be behind what is known to be in it: a
	// replica that became the leader has to catch up.
	patience = 30 * time.Second
)

// Append appends a commit behind the sequence expected, or fails. On success
// the commit is in the log, at expected+1, on disk.
//
// An attempt without an answer settles nothing: the message may be in the
// stream, or still be on its way to it, so that the end of the stream does not
// tell. The same commit is therefore published again with the same expected
// sequence until it is acknowledged, or refused because the stream has gone on;
// then whoever stands at that sequence has won, and the ids tell who it is.
// When ctx ends before that, the error is ErrUnsettled.
//
// Where nobody stands there the refusal settles nothing either: a cluster's
// leader counts what it has accepted and may still lose.
func (l *Log) Append(ctx context.Context, expected uint64, id [16]byte, commit []byte) error {
	return l.Send(expected, id, commit)(ctx)
}

// Send begins to append a commit: it is on its way when Send returns, and settle
// waits until it is known what became of it, as Append does. Until settle has
// returned the commit must not be changed, and no other sent.
func (l *Log) Send(expected uint64, id [16]byte, commit []byte) (settle func(context.Context) error) {
	message := envelope.Seal(commit)
	err := l.send(expected, message)
	return func(ctx context.Context) error {
		if err == nil {
			err = l.answer(ctx, expected)
		}
		return l.settle(ctx, expected, id, message, err)
	}
}

// settle publishes a message until it is known what became of it; err is what
// became of the first attempt.
func (l *Log) settle(ctx context.Context, expected uint64, id [16]byte, message []byte, err error) error {
	doubt := false // an earlier attempt may have been stored
	pause := firstPause
	var behind time.Time // since when the log has been behind
	for {
		switch bus.Classify(err) {
		case bus.Stored:
			return nil
		case bus.Conflict:
			doubt = true
			if err = l.whose(ctx, expected+1, id); err == nil || errors.Is(err, ErrFenced) {
				return err
			}
		case bus.Refused:
			if !doubt {
				return fmt.Errorf("log of realm %s: append: %w", l.realm, err)
			}
		case bus.Ambiguous:
			doubt = true
		}
		if errors.Is(err, ErrNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse) {
			if behind.IsZero() {
				behind = time.Now()
			}
			if err := l.lost(ctx, expected, time.Since(behind) > l.patience); err != nil {
				return fmt.Errorf("log of realm %s: append: %w", l.realm, err)
			}
		}
		select {
		case <-ctx.Done():
			if !doubt {
				return fmt.Errorf("log of realm %s: append: %w", l.realm, err)
			}
			return fmt.Errorf("log of realm %s: append: %w: %w", l.realm, ErrUnsettled, err)
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
		if err = l.send(expected, message); err == nil {
			err = l.answer(ctx, expected)
		}
	}
}

// whose returns nil if the commit at a sequence is the one with the id, and
// ErrFenced if it is another.
func (l *Log) whose(ctx context.Context, sequence uint64, id [16]byte) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	message, err := l.Get(ctx, sequence)
	if err != nil {
		return err
	}
	c, err := Decode(message)
	if err != nil {
		return fmt.Errorf("log of realm %s: sequence %d: %w", l.realm, sequence, err)
	}
	if c.ID != id {
		return ErrFenced
	}
	return nil
}

// lost returns an error if the log is known not to be the one, or not to have
// any more, what it is to be appended to.
func (l *Log) lost(ctx context.Context, expected uint64, long bool) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	last, _, err := l.Last(ctx)
	switch {
	case errors.Is(err, ErrGone):
		return err
	case err == nil && last < expected && long:
		return &BrokenError{Sequence: expected, What: fmt.Sprintf("it was there, and now the log ends at %d", last)}
	}
	return nil
}

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
	return nc.PublishMsg(&nats.Msg{
		Subject: bus.LogSubject(l.realm), Reply: l.reply(), Data: message,
		Header: nats.Header{
			jetstream.ExpectedStreamHeader:  {bus.LogStream(l.realm)},
			jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(expected, 10)},
		},
	})
}

// reply is where the answer to the last attempt comes to.
func (l *Log) reply() string { return l.inbox + strconv.FormatUint(l.attempt, 10) }

// answer waits for the answer to the last attempt. Those to earlier ones tell
// nothing that it does not tell better. That nobody answers tells nothing of which it
// was, and so leaves the attempt in doubt.
func (l *Log) answer(ctx context.Context, expected uint64) error {
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

// acknowledged returns nil if an answer says that the message is at a sequence.
func acknowledged(m *nats.Msg, sequence uint64) error {
	if at := gjson.GetBytes(m.Data, "seq").Uint(); at != 0 {
		if at != sequence {
			return fmt.Errorf("stored at sequence %d, expected %d", at, sequence)
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
