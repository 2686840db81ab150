package state

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A commit has a sequence, which is its number, and a position in the stream of the log.
// They are equal until a message that is no commit is skipped; from then on the position is
// greater. The table of positions has a row for each commit that follows skipped messages.
// The rest of the state uses sequences, because the writer decides the next commit before
// the position of this one is known.

// Place sets the position in the stream of the last commit that has ended. It must be
// called before Flush if messages were skipped, and need not be otherwise.
func (tx *Tx) Place(position uint64) {
	tx.placed = append(tx.placed, placed{tx.checkpoint.GetSequence(), position})
}

// placed is the position of a commit in the stream.
type placed struct{ sequence, position uint64 }

// writePositions writes the positions that Place has set, and returns the checkpoint with
// the last one. before is the checkpoint in the state.
func (tx *Tx) writePositions(w *writer, before *coppicev1.Checkpoint) *coppicev1.Checkpoint {
	cp := proto.Clone(tx.checkpoint).(*coppicev1.Checkpoint)
	skipped := before.GetPosition() - before.GetSequence()
	for _, p := range tx.placed {
		if s := p.position - p.sequence; s != skipped {
			skipped = s
			w.put(numberKey(tablePositions, p.sequence), binary.AppendUvarint(nil, p.position))
		}
	}
	cp.Position = cp.GetSequence() + skipped
	return cp
}

// ErrNoPosition is wrapped by the error for the position of a commit that precedes the
// stream: the realm continues another log (lifecycle.Origin).
var ErrNoPosition = errors.New("it is a commit of the log that the realm continues, and not in the stream")

// position returns the position of a commit in the stream. The error wraps ErrNoPosition for
// commits before the stream; then position is that of the first commit in the stream.
func position(r pebble.Reader, sequence uint64) (at uint64, err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{tablePositions}, UpperBound: []byte{tablePositions + 1}})
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, it.Error(), it.Close()) }()
	placed := func() (sequence, position uint64, err error) {
		position, n := binary.Uvarint(it.Value())
		if n <= 0 {
			err = errCorrupt
		}
		return numberOfKey(it.Key()), position, err
	}
	if it.SeekLT(numberKey(tablePositions, sequence+1)) {
		known, position, err := placed()
		return sequence + position - known, err
	}
	// The first commit of a stream is at its sequence, or later if messages were skipped,
	// unless it is the first commit of a realm that continues another log.
	if it.First() {
		known, position, err := placed()
		if err == nil && position < known {
			return position, ErrNoPosition
		}
		return sequence, err
	}
	return sequence, nil
}

// Position returns the position of a commit in the stream of the log. If commits are being
// written to the state, it waits for them.
func (s *State) Position(sequence uint64) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return position(s.db, sequence)
}

// LeaveStream prepares a state for the stream of a realm that continues this log: it forgets
// where commits are in the present stream. The next commit must be the first message of the
// new one. No Tx may be open, and the state must have a commit.
func (s *State) LeaveStream() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checkpoint.GetSequence() == 0 {
		return fmt.Errorf("state: leave the stream: %w", ErrNoContent)
	}
	cp := proto.Clone(s.checkpoint).(*coppicev1.Checkpoint)
	cp.Position, cp.StreamCreated = 0, 0
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(cp)
	if err != nil {
		return fmt.Errorf("state: checkpoint: %w", err)
	}
	const first = 1 // position of the next commit
	w := writer{b: s.db.NewBatch()}
	if err := w.b.DeleteRange([]byte{tablePositions}, []byte{tablePositions + 1}, nil); err != nil {
		return fmt.Errorf("state: leave the stream: %w", err)
	}
	w.put(numberKey(tablePositions, cp.GetSequence()+1), binary.AppendUvarint(nil, first))
	w.put(keyCheckpoint, encoded)
	if w.err != nil {
		return fmt.Errorf("state: write: %w", w.err)
	}
	if err := s.commit(w.b); err != nil {
		return err
	}
	s.checkpoint, s.newest = cp, nil
	return w.b.Close()
}
