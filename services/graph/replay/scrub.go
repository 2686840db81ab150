package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Scrub reads a log again that was folded before, in small steps, to find damage in
// commits that nothing else reads. It is for one goroutine.
type Scrub struct {
	log   *eventlog.Log
	copy  *eventlog.Copy // nil to read the log from any server
	chain chain
	at    uint64 // the position of the last message that was read
	read  int64  // bytes
}

// Bounds of one step of a Scrub.
const (
	scrubMessages = 1000
	scrubBytes    = 4 << 20
)

// NewScrub returns a Scrub that begins at a position of a log: the first message of its stream.
// If that is not commit 1, because the stream was cut or continues another log, the checksum
// before it is not checked.
func NewScrub(log *eventlog.Log, from uint64) *Scrub {
	return &Scrub{log: log, at: from - 1}
}

// ScrubCopy returns a Scrub of the copy that one server has. copy must begin at the same
// position.
func ScrubCopy(copy *eventlog.Copy, log *eventlog.Log, from uint64) *Scrub {
	s := NewScrub(log, from)
	s.copy = copy
	return s
}

// At returns the position of the last message that was read.
func (s *Scrub) At() uint64 { return s.at }

// Bytes returns the number of bytes that were read.
func (s *Scrub) Bytes() int64 { return s.read }

// Step reads some messages, up to a position of the stream, and reports whether it has
// read that one. It returns a BrokenError if a message is missing or damaged. Another error
// is one of reading; Step may be called again then.
func (s *Scrub) Step(ctx context.Context, until uint64) (done bool, err error) {
	if s.at >= until {
		return true, nil
	}
	visit := func(m eventlog.Message) error {
		if m.Position > until && s.at >= until {
			return errReached
		}
		if m.Position != s.at+1 {
			return &eventlog.BrokenError{Position: s.at + 1, Last: m.Position - 1, What: fmt.Sprintf("it cannot be read; the next that can is %d", m.Position)}
		}
		s.at = m.Position
		s.read += int64(len(m.Data))
		return s.chain.visit(s.log.Keys(), m)
	}
	if s.copy != nil {
		err = s.copy.Read(ctx, s.at, until, visit)
	} else {
		_, err = s.log.Read(ctx, s.at+1, scrubMessages, scrubBytes, visit)
	}
	if errors.Is(err, errReached) {
		err = nil
	}
	return s.at >= until, err
}

// chain checks that the commits of a log continue each other, from the first one that is visited.
type chain struct {
	eventlog.Chain
	begun bool
}

func (c *chain) visit(keys *eventlog.Keys, m eventlog.Message) error {
	commit, err := summaryOf(keys, m)
	switch {
	case err != nil:
		return &eventlog.BrokenError{Position: m.Position, Last: m.Position, What: err.Error()}
	case commit == nil || c.Skips(&commit.header) != "":
		return nil
	}
	if !c.begun && commit.header.Sequence > 1 {
		c.Chain = eventlog.ChainBefore(&commit.header)
	}
	c.begun = true
	return c.Follow(m.Position, &commit.header, commit.newKey, commit.checksum)
}

// CheckFilled reads a log from a position on up to another one, at which its stream has a message. It
// returns a BrokenError if the stream lacks messages there, unless the log has an archive, and the commits
// of the archive stand where they are missing.
func CheckFilled(ctx context.Context, log Log, from, until uint64) error {
	var c chain
	err := log.Follow(ctx, from, func(m eventlog.Message) error {
		if err := c.visit(log.Keys(), m); err != nil {
			return err
		}
		if m.Position >= until {
			return errReached
		}
		return nil
	})
	if errors.Is(err, errReached) {
		err = nil
	}
	return err
}
