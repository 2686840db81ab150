package eventlog

import (
	"context"
	"errors"
	"fmt"
)

// maxForeign is the maximum number of messages that LastCommit looks at.
const maxForeign = 1000

// LastCommit returns the sequence of the last commit of the stream, zero if there is none among
// the last 1,000 messages.
func (l *Log) LastCommit(ctx context.Context) (sequence uint64, err error) {
	last, first, err := l.Last(ctx)
	if err != nil {
		return 0, err
	}
	for at := last; at >= max(first, 1) && last-at < maxForeign; at-- {
		if h, ok, err := l.headerAt(ctx, at); ok || err != nil {
			return h.Sequence, err
		}
	}
	return 0, nil
}

// EndOf returns the position of the last message of the stream, and the sequence and the checksum of
// the last commit up to there; zeros if it has no message. It fails if none of the last 1,000 messages is
// a commit.
func (l *Log) EndOf(ctx context.Context) (last, sequence, checksum uint64, err error) {
	last, first, err := l.Last(ctx)
	if err != nil || last == 0 {
		return 0, 0, 0, err
	}
	for at := last; at >= max(first, 1) && last-at < maxForeign; at-- {
		h, ok, err := l.headerAt(ctx, at)
		if err != nil {
			return last, 0, 0, err
		}
		if !ok {
			continue
		}
		commit, err := l.Get(ctx, at)
		return last, h.Sequence, Checksum(commit), err
	}
	return last, 0, 0, fmt.Errorf("log of realm %s: no message up to sequence %d is a commit", l.realm, last)
}

// headerAt returns the header of the commit at a position. ok is false if there is none.
func (l *Log) headerAt(ctx context.Context, position uint64) (h Header, ok bool, err error) {
	m, err := l.Message(ctx, position)
	if errors.Is(err, ErrNotFound) {
		return h, false, nil
	}
	if err != nil {
		return h, false, fmt.Errorf("log of realm %s: %w", l.realm, err)
	}
	h, foreign := l.keys.Check(m)
	return h, foreign == "", nil
}
