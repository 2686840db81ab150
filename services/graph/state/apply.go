package state

import (
	"fmt"

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

// Apply writes the effects of the commits that have ended, in one batch with the
// checkpoint, and makes them visible to new Snapshots. It returns the changed work rows.
// After an error the State is unusable.
func (tx *Tx) Apply() ([]WorkChange, error) { return tx.AnswerAndApply(func() {}) }

// AnswerAndApply is Apply, and calls answer before it writes. From then on replies that depend on
// the effects may be sent: Command finds the commands, and other reads of the State wait until
// the effects are written. answer must therefore not call methods of the State. If the effects
// cannot be written, all later Snapshots fail.
func (tx *Tx) AnswerAndApply(answer func()) ([]WorkChange, error) {
	if err := tx.Encode(); err != nil {
		return nil, err
	}
	s, e := tx.s, tx.encoded
	checkpoint := tx.encodePositions(&e.w, s.Checkpoint())
	cp, err := proto.MarshalOptions{Deterministic: true}.Marshal(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("state: checkpoint: %w", err)
	}
	e.w.put(keyCheckpoint, cp)
	removed := drop(&e.w, tableRemoved, s.removed, tx.removed)
	if e.w.err != nil {
		return nil, fmt.Errorf("state: write: %w", e.w.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands.update(tx.commands, lifecycle.Time(tx.checkpoint.GetTime()))
	s.head = tx.head
	s.head.checkpoint = checkpoint
	answer()
	written := e.w.b.Len()
	s.nameFilter.add(e.names, written)
	if err := s.write(e.w.b); err != nil {
		return nil, err
	}
	if err := e.w.b.Close(); err != nil {
		return nil, fmt.Errorf("state: write: %w", err)
	}
	s.recent.write(e.dirty)
	s.removed.update(tx.removed, removed)
	if s.newest = nil; tx.worthKeeping(written) {
		s.newest = tx
	}
	tx.applied.Store(true)
	return e.pending, nil
}
