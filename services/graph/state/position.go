package state

import (
	"cmp"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A commit has a sequence, which is its number, and a position in the stream of the
// log. They are the same until a message that is no commit is skipped; from then on
// the position is ahead. The table of positions has a row for each commit that follows
// skipped messages. All else in the state is by sequence: the writer decides the next
// commit before it is known where in the stream this one will be.

// Place says where in the stream the commit is that has ended last. It is called
// before Flush; where it is not, no message was skipped.
func (tx *Tx) Place(position uint64) {
	tx.placed = append(tx.placed, placed{tx.checkpoint.GetSequence(), position})
}

// placed is where in the stream a commit is.
type placed struct{ sequence, position uint64 }

// writePositions writes what Place has said, and returns the checkpoint with it.
// before is the checkpoint in the state.
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

// position is where in the stream a commit is.
func position(r pebble.Reader, sequence uint64) (uint64, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{tablePositions}, UpperBound: []byte{tablePositions + 1}})
	if err != nil {
		return 0, err
	}
	skipped := uint64(0)
	if it.SeekLT(numberKey(tablePositions, sequence+1)) {
		at, n := binary.Uvarint(it.Value())
		if n <= 0 {
			err = errCorrupt
		}
		skipped = at - numberOfKey(it.Key())
	}
	return sequence + skipped, cmp.Or(err, it.Error(), it.Close())
}

// Position returns where in the stream of the log a commit is. It waits for a
// commit that is being written into the state.
func (s *State) Position(sequence uint64) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return position(s.db, sequence)
}
