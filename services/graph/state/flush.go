package state

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// WorkChange is a work row that a Tx wrote or deleted.
type WorkChange struct {
	UID uid.UID
	Row WorkRow
	// Had and Has say whether the row existed before and exists now.
	Had, Has bool
	// Dependents: the work for dependents has changed, or the set of these dependents.
	Dependents bool
	// Keeps: the object keeps its dependents now, and did not before, because it was absent
	// or waited for them. Dangling and waiting references of these dependents to other
	// owners may have to be removed now.
	Keeps bool
}

// prepared has the effects of a Tx, encoded for Flush.
type prepared struct {
	w       writer    // of the batch
	names   []uint64  // hashes of keys that are written or deleted
	dirty   []uid.UID // sorted
	pending []WorkChange
}

// Sizes of batches in bytes: the largest whose memory is used again, and estimates for an
// object that is written and for one that is removed.
const (
	retainedBatch = 16 << 20
	objectStays   = 640
	objectRemoved = 128
)

// Prepare encodes the effects of the commits that have ended, so that Flush only has to
// write them. Afterwards only Place, Flush, FlushNotify, Drop, Next and Checkpoint may be
// called. Prepare can run while the last of the commits is being appended to the log, and
// while the Tx under this one is flushed. Flush calls Prepare if it was not called.
func (tx *Tx) Prepare() error {
	if tx.prepared != nil {
		return nil
	}
	tx.Drop() // Prepare is the last to read
	if err := tx.Err(); err != nil {
		return err
	}
	s := tx.s
	uids, stay := tx.dirtyObjects()
	size := stay*objectStays + (len(uids)-stay+1)*objectRemoved
	b := s.db.NewBatch(pebble.WithInitialSizeBytes(size), pebble.WithMaxRetainedSizeBytes(retainedBatch))
	p := &prepared{w: writer{b: b}, dirty: uids}
	w := &p.w
	runs := tx.runs(uids)
	tx.writeNodes(w, uids, runs)
	tx.writeBodies(w, uids, runs)
	p.names = tx.writeNames(w, uids)
	tx.writeProtected(w, uids)
	tx.writeExpiry(w, uids)
	tx.writeEdges(w, uids, runs)
	tx.writeClaims(w)
	tx.writeAbsent(w)
	p.pending = tx.writePending(w)
	tx.writeSessions(w)
	tx.writeRealm(w)
	tx.writeBrakes(w)
	tx.writeNotices(w)
	tx.writeCommands(w)
	for _, op := range tx.rows {
		w.put(op.key, op.value)
	}
	if w.err != nil {
		return fmt.Errorf("state: write: %w", w.err)
	}
	tx.prepared = p
	return nil
}

// Flush writes the effects of the commits that have ended, in one batch with the
// checkpoint, and makes them visible to new Snapshots. It returns the changed work rows.
// After an error the State is unusable.
func (tx *Tx) Flush() ([]WorkChange, error) { return tx.FlushNotify(func() {}) }

// FlushNotify is Flush, and calls notify before it writes. From then on replies that depend on
// the effects may be sent: Command finds the commands, and other reads of the State wait until
// the effects are written. notify must therefore not call methods of the State. If the effects
// cannot be written, all later Snapshots fail.
func (tx *Tx) FlushNotify(notify func()) ([]WorkChange, error) {
	if err := tx.Prepare(); err != nil {
		return nil, err
	}
	s, p := tx.s, tx.prepared
	checkpoint := tx.writePositions(&p.w, s.Checkpoint())
	cp, err := proto.MarshalOptions{Deterministic: true}.Marshal(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("state: checkpoint: %w", err)
	}
	p.w.put(keyCheckpoint, cp)
	removed := drop(&p.w, tableRemoved, s.removed, tx.removed)
	if p.w.err != nil {
		return nil, fmt.Errorf("state: write: %w", p.w.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands.update(tx.commands, lifecycle.Time(tx.checkpoint.GetTime()))
	s.kinds, s.settings, s.realm, s.checkpoint = tx.kinds, tx.settings, tx.realm, checkpoint
	notify()
	written := p.w.b.Len()
	s.written.add(p.names, written)
	if err := s.commit(p.w.b); err != nil {
		return nil, err
	}
	if err := p.w.b.Close(); err != nil {
		return nil, fmt.Errorf("state: write: %w", err)
	}
	s.ranges.add(p.w.ranges)
	s.recent.write(p.dirty, tx.births.here)
	s.removed.update(tx.removed, removed)
	if s.newest = nil; tx.worthKeeping(written) {
		s.newest = tx
	}
	tx.flushed.Store(true)
	return p.pending, nil
}
