package eventlog

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Chain is a position in the log, with the properties that the next commit must have.
type Chain struct {
	RealmID  [16]byte // zero before the first commit
	Sequence uint64   // of the last commit
	Position uint64   // of the last commit, in the stream
	Revision uint64
	Checksum uint64
	Epoch    uint64
	Time     lifecycle.Time
	Key      KeyID // of the next commit
}

// ChainOf returns the position that a checkpoint names.
func ChainOf(c *coppicev1.Checkpoint) Chain {
	chain := Chain{
		Sequence: c.GetSequence(),
		Position: c.GetPosition(),
		Revision: c.GetRevision(),
		Checksum: c.GetChecksum(),
		Epoch:    c.GetEpoch(),
		Time:     lifecycle.Time(c.GetTime()),
		Key:      KeyID{Number: c.GetKey()},
	}
	copy(chain.RealmID[:], c.GetRealmId())
	copy(chain.Key.Fingerprint[:], c.GetKeyFingerprint())
	return chain
}

// ChainBefore returns the position before a commit with a header, which the commit continues. The
// position in the stream, the time and the fingerprint of the key are not known.
func ChainBefore(h *Header) Chain {
	return Chain{
		RealmID: h.RealmID, Sequence: h.Sequence - 1, Revision: h.FirstRevision - 1, Checksum: h.Previous, Epoch: h.Epoch,
		Key: KeyID{Number: h.Key},
	}
}

// BrokenError is returned if the log is not continuous: a message is missing, or a commit
// contradicts the commits before it. Waiting does not help.
type BrokenError struct {
	Position uint64 // in the stream, of the message that does not fit
	Last     uint64 // of the messages that are missing, if it is known; otherwise zero
	What     string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the log is broken at sequence %d: %s", e.Position, e.What)
}

// Skips returns why a commit that passed Keys.Check is skipped, or "" if it must continue
// the chain. Skipped commits belong to an older history of the realm: from before the log
// was lost and restored, under another key, or from before the stream was deleted.
//
// The result depends only on the log, so that all readers agree.
func (chain *Chain) Skips(h *Header) (why string) {
	switch {
	case chain.RealmID == [16]byte{}:
		return ""
	case h.RealmID != chain.RealmID:
		return fmt.Sprintf("it is of another history of the realm, with id %x", h.RealmID)
	case h.Key != chain.Key.Number:
		return fmt.Sprintf("it is authenticated with key %d, after the realm has changed to key %d", h.Key, chain.Key.Number)
	case h.Sequence <= chain.Sequence:
		return fmt.Sprintf("it is commit %d of the realm, of which commit %d is there already", h.Sequence, chain.Sequence)
	}
	return ""
}

// Adopt makes the realm of a commit that of the chain, if the commit begins a realm that continues
// the log up to the chain's last commit; origin is the one that the commit records. Only readers
// without keys may call it, for a recorded log: a stream has commits of one realm.
func (chain *Chain) Adopt(h *Header, origin lifecycle.Origin) {
	if origin == (lifecycle.Origin{RealmID: chain.RealmID, Sequence: chain.Sequence}) && chain.Sequence > 0 {
		chain.RealmID, chain.Key = h.RealmID, KeyID{Number: h.Key}
	}
}

// Follow checks that a commit that is not skipped continues the chain, and moves the chain
// behind it. Revision is not changed: the object events change it. newKey is the key that
// the commit changes to, zero for none.
func (chain *Chain) Follow(position uint64, h *Header, newKey KeyID, checksum uint64) error {
	broken := func(format string, args ...any) error {
		return &BrokenError{Position: position, What: fmt.Sprintf(format, args...)}
	}
	switch {
	case h.Sequence != chain.Sequence+1:
		return broken("it is commit %d of the realm, after commit %d", h.Sequence, chain.Sequence)
	case position <= chain.Position:
		return broken("it follows sequence %d", chain.Position)
	case chain.RealmID != [16]byte{} && h.RealmID != chain.RealmID:
		return broken("it is of another realm, %x, not %x", h.RealmID, chain.RealmID)
	case h.Previous != chain.Checksum:
		return broken("it names %016x as the checksum of the commit before it, which has %016x", h.Previous, chain.Checksum)
	case h.Epoch < chain.Epoch:
		return broken("its epoch is %d, after %d", h.Epoch, chain.Epoch)
	case h.Time < chain.Time:
		return broken("its time is %d, after %d", h.Time, chain.Time)
	}
	chain.RealmID, chain.Sequence, chain.Position, chain.Checksum = h.RealmID, h.Sequence, position, checksum
	chain.Epoch, chain.Time = h.Epoch, h.Time
	if newKey != (KeyID{}) {
		chain.Key = newKey
	}
	return nil
}

// Next is Follow for a commit that is decoded; its first revision must follow too. Only a
// commit that records the loss of commits may leave out revisions: see Leaps.
func (chain *Chain) Next(position uint64, commit []byte, c *Decoded) error {
	if c.FirstRevision != chain.Revision+1 && !chain.Leaps(&c.Header) {
		return &BrokenError{Position: position, What: fmt.Sprintf("its first revision is %d, after %d", c.FirstRevision, chain.Revision)}
	}
	return chain.Follow(position, &c.Header, c.NewKey, Checksum(commit))
}

// Leaps reports whether the next commit leaves out revisions. The first commit of an epoch
// does so if commits before it were lost: their revisions, which clients may know, are not
// used again.
func (chain *Chain) Leaps(h *Header) bool {
	return h.Epoch > chain.Epoch && h.FirstRevision > chain.Revision+1
}
