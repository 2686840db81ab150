package eventlog

import (
	"context"
	"errors"
	"fmt"
)

// Restore appends a commit that the stream has lost from its end, at the position that it had. m is
// the message as it was read before, or as the archive has it. Several processes may restore the same
// commits at the same time. The error is ErrFenced if another message stands at the position, and a
// BrokenError if the stream does not end before it or m is no commit of the realm. Otherwise it is as that
// of Append.
func (l *Log) Restore(ctx context.Context, m Message) error {
	h, foreign := l.keys.Check(m)
	if foreign != "" {
		return &BrokenError{Position: m.Position, What: foreign}
	}
	last, _, err := l.Last(ctx)
	if err != nil {
		return err
	}
	if last+1 < m.Position {
		return &BrokenError{Position: m.Position, What: fmt.Sprintf("the stream ends at sequence %d", last)}
	}
	// The authentication code of a commit names its position: the commit cannot be moved.
	a := &appending{l: l, id: h.ID, expected: m.Position - 1, message: m.Data, move: func(uint64) error { return ErrFenced }}
	limited, cancel := context.WithTimeout(ctx, maxLag)
	defer cancel()
	l.pending.begin()
	defer l.pending.end()
	if err = l.send(a.expected, a.message); err == nil {
		err = l.acknowledgement(limited, a.expected)
	}
	err = a.wait(limited, err)
	if errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil {
		// A server that has found damage while it ran may count messages that it does not have.
		err = fmt.Errorf("the NATS server neither appends a commit there nor has one: restart the server: %w", err)
	}
	return err
}
