package eventlog

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Chain is a place in the log, and what must come next.
type Chain struct {
	RealmID  [16]byte // zero before the first commit
	Sequence uint64
	Revision uint64
	Checksum uint64
	Epoch    uint64
	Time     lifecycle.Time
}

// ChainOf is the place that a checkpoint names.
func ChainOf(c *coppicev1.Checkpoint) Chain {
	chain := Chain{
		Sequence: c.GetSequence(),
		Revision: c.GetRevision(),
		Checksum: c.GetChecksum(),
		Epoch:    c.GetEpoch(),
		Time:     lifecycle.Time(c.GetTime()),
	}
	copy(chain.RealmID[:], c.GetRealmId())
	return chain
}

// BrokenError says that the log does not go on where it should: a message is
// missing, or was repeated, or belongs to another history. Waiting does not
// cure it.
type BrokenError struct {
	Sequence uint64 // of the message that does not fit
	What     string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the log is broken at sequence %d: %s", e.Sequence, e.What)
}

// Checksum is the checksum of a commit.
func Checksum(commit []byte) uint64 { return xxhash.Sum64(commit) }

// Next checks that the message, decoded as c, goes on where the chain is, and
// moves the chain behind it, save for its object events: they move Revision.
func (chain *Chain) Next(sequence uint64, message []byte, c *Decoded) error {
	broken := func(format string, args ...any) error {
		return &BrokenError{Sequence: sequence, What: fmt.Sprintf(format, args...)}
	}
	switch {
	case sequence != chain.Sequence+1:
		return broken("it follows sequence %d", chain.Sequence)
	case chain.RealmID != [16]byte{} && c.RealmID != chain.RealmID:
		return broken("it is of another realm, %x, not %x", c.RealmID, chain.RealmID)
	case c.Previous != chain.Checksum:
		return broken("it names %016x as the checksum of the message before it, which has %016x", c.Previous, chain.Checksum)
	case c.FirstRevision != chain.Revision+1:
		return broken("its first revision is %d, after %d", c.FirstRevision, chain.Revision)
	case c.Epoch < chain.Epoch:
		return broken("its epoch is %d, after %d", c.Epoch, chain.Epoch)
	case c.Time < chain.Time:
		return broken("its time is %d, after %d", c.Time, chain.Time)
	}
	chain.RealmID, chain.Sequence, chain.Checksum = c.RealmID, sequence, Checksum(message)
	chain.Epoch, chain.Time = c.Epoch, c.Time
	return nil
}
