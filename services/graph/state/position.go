package state

import (
	"cmp"
	"encoding/binary"

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
// called before Apply if messages were skipped, and need not be otherwise.
func (tx *Tx) Place(position uint64) {
	tx.placed = append(tx.placed, placed{tx.checkpoint.GetSequence(), position})
}

// placed is the position of a commit in the stream.
type placed struct{ sequence, position uint64 }

// encodePositions encodes the positions that Place has set, and returns the checkpoint with
// the last one. before is the checkpoint in the state.
func (tx *Tx) encodePositions(w *batchWriter, before *coppicev1.Checkpoint) *coppicev1.Checkpoint {
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

// position returns the position of a commit in the stream.
func position(r pebble.Reader, sequence uint64) (at uint64, err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{tablePositions}, UpperBound: []byte{tablePositions + 1}})
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, it.Error(), it.Close()) }()
	if !it.SeekLT(numberKey(tablePositions, sequence+1)) {
		return sequence, nil
	}
	at, n := binary.Uvarint(it.Value())
	if n <= 0 {
		return 0, errCorrupt
	}
	return sequence + at - numberOfKey(it.Key()), nil
}

// Position returns the position of a commit in the stream of the log. If commits are being
// written to the state, it waits for them.
func (s *State) Position(sequence uint64) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return position(s.db, sequence)
}
