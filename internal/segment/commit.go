package segment

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Point is a place in a log: the one behind a commit.
type Point struct {
	Sequence uint64         // the number of the commit
	Position uint64         // of its message in the stream; 0 if unknown
	Revision uint64         // after the commit
	Checksum uint64         // of the commit
	Time     lifecycle.Time // of the commit; 0 if unknown
}

// Commit is a commit of a segment, with its message.
type Commit struct {
	commitcodec.Header
	Position uint64 // of the message in the stream
	Revision uint64 // after the commit
	Checksum uint64
	// Message is byte for byte what the stream has. It stays valid.
	Message []byte
	// Content is the uncompressed commit. It is valid until the next commit is read.
	Content []byte
}

// Point returns the place behind the commit.
func (c *Commit) Point() Point {
	return Point{Sequence: c.Sequence, Position: c.Position, Revision: c.Revision, Checksum: c.Checksum, Time: c.Time}
}

// chain checks that commits continue each other.
type chain struct {
	begun bool // realm, epoch and last are of a commit
	// anyChecksum: the checksum of the commit before is not known, nor its realm id.
	anyChecksum bool
	realm       [16]byte
	epoch       uint64 // of the last commit; 0 if unknown
	last        Point
	room        []byte // for the content of commits
}

// open decodes a message, and checks it against the commits before it. The chain is not
// changed.
func (c *chain) open(position uint64, message []byte) (commit Commit, err error) {
	// The writer bounds a commit before it is compressed: a block that claims more is not a commit.
	if n := envelope.Size(message); n > MaxMessage {
		return commit, fmt.Errorf("it claims a commit of %d bytes, more than %d", n, MaxMessage)
	}
	if h, err := commitcodec.ReadHeader(message); err == nil {
		if err := h.Readable(); err != nil { // the rest of the message may look different
			return commit, err
		}
	}
	content, err := envelope.OpenInto(&c.room, message)
	if err != nil {
		return commit, err
	}
	h, err := commitcodec.ReadHeader(content)
	if err != nil {
		return commit, err
	}
	n, err := commitcodec.CountEvents(content)
	if err != nil {
		return commit, err
	}
	if err := c.check(position, &h, content); err != nil {
		return commit, err
	}
	return Commit{
		Header: h, Position: position, Revision: h.FirstRevision - 1 + n, Checksum: commitcodec.Checksum(content),
		Message: message, Content: content,
	}, nil
}

func (c *chain) check(position uint64, h *commitcodec.Header, content []byte) error {
	switch {
	case h.Sequence == 0 || h.FirstRevision == 0 || position == 0:
		return fmt.Errorf("the commit has sequence %d, first revision %d and position %d, which begin with 1", h.Sequence, h.FirstRevision, position)
	case !c.begun:
		return nil
	case h.RealmID != c.realm && !c.continues(content):
		return fmt.Errorf("it is of another realm, %x, not %x", h.RealmID, c.realm)
	case h.Sequence != c.last.Sequence+1:
		return fmt.Errorf("it is commit %d of the realm, after commit %d", h.Sequence, c.last.Sequence)
	case position <= c.last.Position:
		return fmt.Errorf("its position %d in the stream is not after %d", position, c.last.Position)
	case h.FirstRevision != c.last.Revision+1 && !c.leaps(h):
		return fmt.Errorf("its first revision is %d, after %d", h.FirstRevision, c.last.Revision)
	case h.Previous != c.last.Checksum && !c.anyChecksum:
		return fmt.Errorf("it names %016x as the checksum of the commit before it, which has %016x", h.Previous, c.last.Checksum)
	case h.Epoch < c.epoch:
		return fmt.Errorf("its epoch is %d, after %d", h.Epoch, c.epoch)
	case h.Time < c.last.Time:
		return fmt.Errorf("its time is %d, after %d", h.Time, c.last.Time)
	}
	return nil
}

// continues reports whether a commit of another realm id begins a realm that continues the log.
func (c *chain) continues(content []byte) bool {
	if c.anyChecksum {
		return true // the realm of the commit before is not known either
	}
	ok, err := commitcodec.Continues(content, c.realm, c.last.Sequence)
	return ok && err == nil
}

// leaps reports whether a commit leaves out revisions. The first commit of an epoch may:
// it records that commits before it were lost, whose revisions are not used again.
func (c *chain) leaps(h *commitcodec.Header) bool {
	return c.epoch > 0 && h.Epoch > c.epoch && h.FirstRevision > c.last.Revision+1
}

// follow moves the chain behind a commit that open has returned.
func (c *chain) follow(commit *Commit) {
	c.begun, c.anyChecksum = true, false
	c.realm, c.epoch, c.last = commit.RealmID, commit.Epoch, commit.Point()
}
