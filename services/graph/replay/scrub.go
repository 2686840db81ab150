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
	chain eventlog.Chain
	at    uint64 // the position of the last message that was read
	begun bool   // a commit was read
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

// At returns the position of the last message that was read.
func (s *Scrub) At() uint64 { return s.at }

// Step reads some messages, up to a position of the stream, and reports whether it has
// read that one. It returns a BrokenError if a message is missing or damaged. Another error
// is one of reading; Step may be called again then.
func (s *Scrub) Step(ctx context.Context, until uint64) (done bool, err error) {
	if s.at >= until {
		return true, nil
	}
	_, err = s.log.Read(ctx, s.at+1, scrubMessages, scrubBytes, func(m eventlog.Message) error {
		if m.Sequence > until {
			return errReached
		}
		if m.Sequence != s.at+1 {
			return &eventlog.BrokenError{Sequence: s.at + 1, Last: m.Sequence - 1, What: fmt.Sprintf("it cannot be read; the next that can is %d", m.Sequence)}
		}
		s.at = m.Sequence
		return s.visit(m)
	})
	if errors.Is(err, errReached) {
		err = nil
	}
	return s.at >= until, err
}

func (s *Scrub) visit(m eventlog.Message) error {
	c, err := summaryOf(s.log.Keys(), m)
	switch {
	case err != nil:
		return &eventlog.BrokenError{Sequence: m.Sequence, Last: m.Sequence, What: err.Error()}
	case c == nil || s.chain.Skips(&c.header) != "":
		return nil
	}
	if !s.begun && c.header.Sequence > 1 {
		s.chain = eventlog.ChainBefore(&c.header)
	}
	s.begun = true
	return s.chain.Follow(m.Sequence, &c.header, c.newKey, c.checksum)
}
