package state

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/coppice-gc/coppice/internal/uid"
)

// keptRemovals is how many removed uids are known to have been removed, alongside
// those that dependents still point to. They are counted and not timed: what is kept
// is a function of the log.
const keptRemovals = 1 << 18

// window is what the last commits brought of something, a row for each commit,
// with an index in memory. Rows are kept until those behind them hold max keys.
// It is safe for concurrent use.
type window[K comparable] struct {
	max int

	mu    sync.RWMutex
	rows  []windowRow[K] // oldest first
	last  uint64         // the sequence of the row that was appended last
	kept  int
	index map[K]uint64 // key to sequence
}

type windowRow[K comparable] struct {
	sequence uint64
	keys     []K
}

func newWindow[K comparable](max int) *window[K] {
	return &window[K]{max: max, index: map[K]uint64{}}
}

// find returns the sequence of the last commit that brought the key.
func (w *window[K]) find(k K) (sequence uint64, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	sequence, ok = w.index[k]
	return sequence, ok
}

// surplus returns how many of the oldest rows fall out of the window once others
// are appended, and the sequence of the first that then is in it; 0 for none. The
// others come in the order of their sequences; those that are in the window
// already are not appended again.
func (w *window[K]) surplus(added ...[]windowRow[K]) (n int, first uint64) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	kept, all := w.kept, len(w.rows)
	for _, rows := range added {
		for i := range rows {
			if rows[i].sequence > w.last {
				kept += len(rows[i].keys)
				all++
			}
		}
	}
	for i, rows := range slices.Concat([][]windowRow[K]{w.rows}, added) {
		for j := range rows {
			r := &rows[j]
			switch {
			case i > 0 && r.sequence <= w.last:
			case n == all-1 || kept <= w.max:
				return n, r.sequence
			default:
				kept -= len(r.keys)
				n++
			}
		}
	}
	return 0, 0
}

// row returns the n-th row, of those kept and those to be added.
func (w *window[K]) row(n int, added []windowRow[K]) *windowRow[K] {
	if n < len(w.rows) {
		return &w.rows[n]
	}
	return &added[n-len(w.rows)]
}

// update appends rows, and then drops the n oldest.
func (w *window[K]) update(added []windowRow[K], n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range added {
		w.rows = append(w.rows, r)
		w.last = r.sequence
		w.kept += len(r.keys)
		for _, k := range r.keys {
			w.index[k] = r.sequence
		}
	}
	for _, r := range w.rows[:n] {
		w.kept -= len(r.keys)
		for _, k := range r.keys {
			if w.index[k] == r.sequence {
				delete(w.index, k)
			}
		}
	}
	clear(w.rows[:n])
	w.rows = w.rows[n:]
}

// removal is one entry of a row of the table of removed objects.
type removal struct {
	uid      uid.UID
	claim    uint64 // claimHash of its coordinates
	revision uint64
	sequence uint64 // of its commit, once that has ended; of what is not stored yet
}

func uidHash(u uid.UID) uint64 { return xxhash.Sum64String(string(u)) }

func appendRemovals(b []byte, list []removal) []byte {
	last := uint64(0)
	for _, r := range list {
		b = append(b, r.uid...)
		b = binary.BigEndian.AppendUint64(b, r.claim)
		b = binary.AppendUvarint(b, r.revision-last)
		last = r.revision
	}
	return b
}

func decodeRemovals(b []byte, visit func(removal)) error {
	last := uint64(0)
	for len(b) > 0 {
		u, rest, err := uid.CutBytes(b)
		if err != nil || len(rest) < 9 {
			return errCorrupt
		}
		claim := binary.BigEndian.Uint64(rest)
		delta, n := binary.Uvarint(rest[8:])
		if n <= 0 {
			return errCorrupt
		}
		last += delta
		visit(removal{uid: u, claim: claim, revision: last})
		b = rest[8+n:]
	}
	return nil
}
