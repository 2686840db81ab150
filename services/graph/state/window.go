package state

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/coppice-gc/coppice/internal/uid"
)

// keptRemovals is the number of removed uids that are recorded, in addition to those to
// which dependents still refer. It is a number and not a time, so that the rows are a
// function of the log alone.
const keptRemovals = 1 << 18

// window has the keys of the last commits, in a row for each commit, with an index in
// memory. A row is dropped when the rows after it have max keys. It is safe for concurrent
// use.
type window[K comparable] struct {
	max int // number of keys of the newest rows that are enough

	mu    sync.RWMutex
	rows  []windowRow[K] // oldest first
	last  uint64         // sequence of the row that was appended last
	kept  int            // number of keys in rows
	index map[K]uint64   // the sequence of the last row with a key
}

// windowRow has the keys of a commit.
type windowRow[K comparable] struct {
	sequence uint64 // of the commit
	keys     []K
}

func newWindow[K comparable](max int) *window[K] {
	return &window[K]{max: max, index: map[K]uint64{}}
}

// find returns the sequence of the last commit with the key.
func (w *window[K]) find(k K) (sequence uint64, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	sequence, ok = w.index[k]
	return sequence, ok
}

// surplus returns how many of the oldest rows leave the window when rows are appended, and
// the sequence of the first row that stays, 0 for none. The rows of added must be in the
// order of their sequences; rows that are in the window already are not appended again.
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

// row returns the n-th of the existing and the added rows.
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

// removal is an entry in a row of the table of removed objects.
type removal struct {
	uid      uid.UID
	claim    uint64 // claimHash of its coordinates
	revision uint64
	sequence uint64 // of its commit, once that has ended; only in entries that are not stored yet
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
