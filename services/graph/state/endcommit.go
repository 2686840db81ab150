package state

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Commit has the properties of a commit that EndCommit needs, in addition to its events.
type Commit struct {
	Sequence uint64
	// Position is the position of the commit in the stream, if it is known: see Tx.Place.
	// It equals Sequence unless messages were skipped.
	Position uint64
	Epoch    uint64
	Time     lifecycle.Time
	Checksum uint64
	RealmID  []byte
	// Commands are those with an id. EndCommit keeps and changes the slice.
	Commands []Command
	// Key and KeyFingerprint name the key of the next commit.
	Key            uint32
	KeyFingerprint []byte
	// StreamCreated is when the stream of the log was created, Unix nanoseconds.
	StreamCreated int64
	// ElidedUntil is the sequence of the commit up to which replay elision leaves out
	// objects: see Pass. Until that commit is applied the state is not a fold of the
	// log, and Open refuses it.
	ElidedUntil uint64
}

// EndCommit ends a commit. It computes the pending work of all uids that the commit
// touched, and moves the checkpoint.
func (tx *Tx) EndCommit(c Commit) {
	for _, u := range slices.Sorted(maps.Keys(tx.touched)) {
		tx.endTouch(u, c.Time)
	}
	clear(tx.touched)
	tx.endSessions(c.Time)

	if len(tx.removals) > 0 {
		tx.put(numberKey(tableRemoved, c.Sequence), appendRemovals(nil, tx.removals))
		row := windowRow[uint64]{sequence: c.Sequence, keys: make([]uint64, len(tx.removals))}
		for i := range tx.removals {
			row.keys[i] = uidHash(tx.removals[i].uid)
		}
		tx.removed = append(tx.removed, row)
		for _, o := range tx.removing {
			o.removal.sequence = c.Sequence
		}
		tx.removals, tx.removing = tx.removals[:0], tx.removing[:0]
		var pending [][]windowRow[uint64]
		for t := tx; t != nil; t = t.under {
			pending = append(pending, t.removed)
		}
		slices.Reverse(pending)
		_, tx.removedSince = tx.s.removed.surplus(pending...)
	}
	tx.endCommands(c)
	cp := tx.checkpoint
	const sparse = 1024 // revisions between two entries of the index
	if cp.Revision >= cp.IndexedRevision+sparse || cp.IndexedRevision == 0 && cp.Revision > 0 {
		cp.IndexedRevision = cp.Revision
		// No code of this version reads the index. It is part of the content of snapshots, whose
		// format is frozen (docs/formats.md).
		tx.put(numberKey(tableIndex, cp.Revision+1), binary.AppendUvarint(nil, c.Sequence+1))
	}
	cp.Sequence, cp.Epoch, cp.Time, cp.Checksum = c.Sequence, c.Epoch, int64(c.Time), c.Checksum
	cp.RealmId, cp.StreamCreated = c.RealmID, c.StreamCreated
	cp.Key, cp.KeyFingerprint = c.Key, c.KeyFingerprint
	if c.Position != 0 {
		tx.Place(c.Position)
	}
	if cp.ElidedUntil = c.ElidedUntil; c.Sequence >= c.ElidedUntil {
		cp.ElidedUntil = 0
	}
}

// endTouch updates the rows of absent owners and the work rows.
func (tx *Tx) endTouch(u uid.UID, now lifecycle.Time) {
	o := tx.object(u)
	w := tx.owner(u)
	a := tx.absence(u)
	switch {
	case a.ok && (o.now != nil || w.all.All == 0):
		*a = absence{dirty: true}
	case !a.ok && o.now == nil && w.all.All > 0:
		// The record of a removal is kept while dependents refer to the owner.
		if e := tx.removal(u); e.revision != 0 {
			*a = absence{revision: e.revision, claim: e.claim, ok: true, dirty: true}
		}
	}
	e, known := tx.pending[u]
	if !known {
		e = &workEntry{}
		if was := tx.underPending(u); was != nil {
			e.row, e.ok = was.row, was.ok
		} else {
			e.row, e.ok = tx.r.pending(u)
		}
		e.stored = e.ok
		tx.pending[u] = e
	}
	grew, keeps, refinalized := w.grew, w.keeps, o.refinalized
	w.grew, w.keeps, o.refinalized = false, false, false
	e.keeps = e.keeps || keeps
	pending := lifecycle.PendingOf(tx, u, o.now)
	if pending == (lifecycle.Pending{}) {
		if e.ok {
			*e = workEntry{stored: e.stored, dirty: true, keeps: e.keeps, dependents: e.dependents}
		}
		return
	}
	if e.ok && e.row.Pending == pending && (!grew || !pending.Evaluate && !pending.Orphan) {
		// The row is unchanged, but its message may have been handled already: the
		// finalizer completed and was set again, or another finalizer or a dependent
		// blocked it for a while. Also, one of several external finalizers may be done,
		// so that its call is obsolete.
		if pending.Finish != "" && (refinalized || grew) || pending.Finalize && refinalized {
			e.dirty = true
		}
		if pending.Drain && grew { // see unprotected
			e.dirty, e.dependents = true, true
		}
		return
	}
	same := e.ok && !grew && e.row.Evaluate == pending.Evaluate && e.row.EvaluateAt == pending.EvaluateAt && e.row.Orphan == pending.Orphan
	since := now
	if e.ok {
		since = e.row.Since
	}
	*e = workEntry{row: WorkRow{Pending: pending, Since: since, Revision: tx.checkpoint.Revision}, ok: true, stored: e.stored, dirty: true, keeps: e.keeps, dependents: e.dependents || !same}
}

func (tx *Tx) underPending(u uid.UID) *workEntry {
	return nearest(tx, func(t *Tx) *workEntry { return t.pending[u] })
}

func (tx *Tx) put(key, value []byte) { tx.rows = append(tx.rows, rowOp{key, value}) }
