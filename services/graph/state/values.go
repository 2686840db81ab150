package state

import (
	"encoding/binary"
	"errors"

	"github.com/coppice-gc/coppice/internal/codec/nodecodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

var errCorrupt = errors.New("malformed value")

// A node's value: 8 bytes of revision, one byte of flags, coppice.v1.Node.
const (
	nodeHeader = 9

	// flagParent is set once an object has had a dependent, with any claim. Without it
	// there are no counters to read.
	flagParent = 1
	// flagUsed is set once another object has had a use of the object, with any claim.
	// Without it there are no counters of users to read.
	flagUsed = 2
)

// kin says which other objects an object has or had: dependents, users.
type kin struct{ parent, used bool }

func appendNodeValue(b []byte, n *lifecycle.Node, k kin) []byte {
	b = binary.LittleEndian.AppendUint64(b, n.Revision)
	flags := byte(0)
	if k.parent {
		flags |= flagParent
	}
	if k.used {
		flags |= flagUsed
	}
	return nodecodec.Append(append(b, flags), n)
}

func decodeNodeValue(b []byte) (n *lifecycle.Node, k kin, err error) {
	if len(b) < nodeHeader {
		return nil, k, errCorrupt
	}
	n, err = nodecodec.Decode(b[nodeHeader:])
	if err != nil {
		return nil, k, err
	}
	n.Revision = binary.LittleEndian.Uint64(b)
	return n, kin{parent: b[8]&flagParent != 0, used: b[8]&flagUsed != 0}, nil
}

func isParent(b []byte) bool { return len(b) >= nodeHeader && b[8]&flagParent != 0 }

// counter is the value of a claim's row.
type counter struct {
	lifecycle.Counts
	lastImport, firstImport lifecycle.Time // see lifecycle.Claimed
}

func appendCounter(b []byte, c counter) []byte {
	b = binary.AppendUvarint(b, c.All)
	b = binary.AppendUvarint(b, c.Terminating)
	b = binary.AppendUvarint(b, c.Blocking)
	b = binary.AppendUvarint(b, uint64(c.lastImport))
	b = binary.AppendUvarint(b, uint64(c.firstImport))
	if c.Protected > 0 { // in few rows
		b = binary.AppendUvarint(b, c.Protected)
	}
	return b
}

func decodeCounter(b []byte) (c counter, err error) {
	var last, first uint64
	b, err = cutUvarints(b, &c.All, &c.Terminating, &c.Blocking, &last, &first)
	if err == nil && len(b) > 0 {
		err = decodeUvarints(b, &c.Protected)
	}
	if err != nil {
		return counter{}, err
	}
	c.lastImport, c.firstImport = lifecycle.Time(last), lifecycle.Time(first)
	return c, nil
}

// decodeUvarints decodes varints. They must fill b.
func decodeUvarints(b []byte, into ...*uint64) error {
	b, err := cutUvarints(b, into...)
	if err == nil && len(b) != 0 {
		return errCorrupt
	}
	return err
}

// cutUvarints decodes the varints with which b begins, and returns what follows them.
func cutUvarints(b []byte, into ...*uint64) (rest []byte, err error) {
	for _, p := range into {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errCorrupt
		}
		*p, b = v, b[n:]
	}
	return b, nil
}

// An absent owner's value: revision, claimHash of its coordinates.
func appendAbsent(b []byte, revision, claim uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.AppendUvarint(b, revision), claim)
}

func decodeAbsent(b []byte) (revision, claim uint64, err error) {
	revision, n := binary.Uvarint(b)
	if n <= 0 || len(b) != n+8 {
		return 0, 0, errCorrupt
	}
	return revision, binary.BigEndian.Uint64(b[n:]), nil
}

// WorkRow is the pending work because of one uid.
type WorkRow struct {
	lifecycle.Pending
	// Since is when the row was created. Changes of the row keep it.
	Since lifecycle.Time
	// Revision is the revision of the last commit that changed the row, or the set of
	// dependents for which it stands.
	Revision uint64
}

const (
	pendingEvaluate = 1 << iota
	pendingOrphan
	pendingFinishOrphan
	pendingFinishForeground
	pendingFinalize
	pendingTerminate
	pendingBlocked
	pendingDrain
	pendingFinishInUse
	pendingProtected
)

func appendWorkRow(b []byte, r WorkRow) []byte {
	flags := uint64(0)
	for _, f := range []struct {
		set bool
		bit uint64
	}{
		{r.Evaluate, pendingEvaluate}, {r.Orphan, pendingOrphan}, {r.Finalize, pendingFinalize}, {r.Terminate, pendingTerminate}, {r.Blocked, pendingBlocked}, {r.Drain, pendingDrain}, {r.Protected, pendingProtected},
		{r.Finish == lifecycle.FinalizerOrphan, pendingFinishOrphan},
		{r.Finish == lifecycle.FinalizerForeground, pendingFinishForeground},
		{r.Finish == lifecycle.FinalizerInUse, pendingFinishInUse},
	} {
		if f.set {
			flags |= f.bit
		}
	}
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendUvarint(b, uint64(r.EvaluateAt))
	b = binary.AppendUvarint(b, uint64(r.Since))
	b = binary.AppendUvarint(b, r.Revision)
	return binary.AppendUvarint(b, r.Examine)
}

func decodeWorkRow(b []byte) (WorkRow, error) {
	var r WorkRow
	var flags, at, since uint64
	if err := decodeUvarints(b, &flags, &at, &since, &r.Revision, &r.Examine); err != nil {
		return r, err
	}
	r.Evaluate, r.Orphan = flags&pendingEvaluate != 0, flags&pendingOrphan != 0
	r.Finalize, r.Terminate, r.Blocked = flags&pendingFinalize != 0, flags&pendingTerminate != 0, flags&pendingBlocked != 0
	r.Drain, r.Protected = flags&pendingDrain != 0, flags&pendingProtected != 0
	switch {
	case flags&pendingFinishOrphan != 0:
		r.Finish = lifecycle.FinalizerOrphan
	case flags&pendingFinishForeground != 0:
		r.Finish = lifecycle.FinalizerForeground
	case flags&pendingFinishInUse != 0:
		r.Finish = lifecycle.FinalizerInUse
	}
	r.EvaluateAt, r.Since = lifecycle.Time(at), lifecycle.Time(since)
	return r, nil
}
