package state

import (
	"bytes"
	"iter"
	"sync/atomic"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Objects that are removed together are often neighbours, and then their rows are deleted by
// range. A range must not have the row of another object, of which this file keeps track:
//
//	read     a neighbour says which object directly precedes one that is read
//	create   births say which objects may have come between two neighbours since
//	write    memtableRanges bounds the number of ranges that readers have to sort
//
// See docs/design/0025 for what this is worth.

// neighbour is the object whose row directly precedes that of another one, in a state with all
// writes up to the generation; the uid is "" if it is unknown.
type neighbour struct {
	uid        uid.UID
	generation uint64 // see recent
}

// births are the first objects, by uid, that Txs create and that are not in the state yet; ""
// if there are none. Objects that sort before them keep their neighbours. Most older objects
// do, because uids of created objects begin with the time.
type births struct {
	here  uid.UID // by the Tx
	under uid.UID // by those under it
}

func (b *births) add(u uid.UID) { b.here = first(b.here, u) }

// birthsSince are the first objects that each of the last writes to the state created, by
// generation.
type birthsSince [changesKept]uid.UID

// bornSince returns the first of the objects that were created after a generation, "" for
// none. known is false if the generation is too old.
func (r *recent) bornSince(generation uint64) (born uid.UID, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation-generation > changesKept {
		return "", false
	}
	for g := generation + 1; g <= r.generation; g++ {
		born = first(born, r.births[g%changesKept])
	}
	return born, true
}

// first is the lesser of two uids; "" is none.
func first(a, b uid.UID) uid.UID {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// memtableRanges is the approximate number of deleted ranges in the memtable. The first reader
// after a range was added sorts all of them again. It is safe for concurrent use.
type memtableRanges struct{ n atomic.Int64 }

// allow reports whether there may be more for a number of objects that are removed by range.
func (m *memtableRanges) allow(objects int) bool { return m.n.Load() <= rangesPerObject*int64(objects) }

func (m *memtableRanges) add(n int64) { m.n.Add(n) }
func (m *memtableRanges) flushed()    { m.n.Store(0) }

// minRun is the smallest number of neighbouring objects whose rows are deleted by range:
// their nodes, their bodies and, if they have the same owner, their edges. A range costs
// about as much as one row, and saves the rows of all objects in it: in memtables, flushes
// and compactions.
const minRun = 8

// rangesPerObject is the maximum number of ranges in a memtable for each object of a run.
const rangesPerObject = 2

// runs returns for each uid the number of objects in the run that begins with it, 0 if none
// does. All objects of a run are removed, their uids are consecutive in uids, and no other
// object is between them, neither in the state nor in what will be written before this Tx.
// uids must be sorted and have all objects whose stored form changes.
func (tx *Tx) runs(uids []uid.UID) []int {
	runs := make([]int, len(uids))
	limits := map[uint64]uid.UID{} // by generation
	joined := func(before, u uid.UID, o *object) bool {
		if o.before.uid != before {
			return false
		}
		limit, ok := limits[o.before.generation]
		if !ok {
			born, known := tx.s.recent.bornSince(o.before.generation)
			if limit = first(born, tx.births.under); !known {
				limit = u // it is unknown which objects were created since
			}
			limits[o.before.generation] = limit
		}
		return limit == "" || u < limit
	}
	begin, objects := 0, 0
	for i, u := range uids {
		o := tx.objects[u]
		if o.now != nil {
			continue
		}
		if i == 0 || tx.objects[uids[i-1]].now != nil || !joined(uids[i-1], u, o) {
			begin = i
		}
		if n := i + 1 - begin; n >= minRun {
			objects += n - runs[begin]
			runs[begin] = n
		}
	}
	if !tx.s.ranges.allow(objects) {
		clear(runs)
	}
	return runs
}

// inRuns iterates over uids: a run is one slice, and each other uid is a slice of its own.
func inRuns(uids []uid.UID, runs []int) iter.Seq[[]uid.UID] {
	return func(yield func([]uid.UID) bool) {
		for i := 0; i < len(uids); {
			n := max(1, runs[i])
			if !yield(uids[i : i+n]) {
				return
			}
			i += n
		}
	}
}

// deleteRun deletes the rows of a run from a table with one row for each object.
func (w *batchWriter) deleteRun(table byte, run []uid.UID) {
	w.key = appendUIDKey(w.key[:0], table, run[0])
	w.value = appendUIDKey(w.value[:0], table, run[len(run)-1])
	w.deleteRange(w.key, w.value)
}

// deleteEdges deletes the edges of a run. It deletes by range the edges of consecutive
// objects with the same first owner: between them there are only edges of the run.
func (tx *Tx) deleteEdges(w *batchWriter, run []uid.UID) {
	var prefix, next []byte
	from := 0
	end := func(to int) {
		if prefix == nil {
			return
		}
		if to-from >= minRun {
			w.key = append(append(w.key[:0], prefix...), run[from]...)
			w.value = append(append(w.value[:0], prefix...), run[to-1]...)
			w.deleteRange(w.key, w.value)
			return
		}
		for _, u := range run[from:to] {
			w.key = append(append(w.key[:0], prefix...), u...)
			w.delete(w.key)
		}
	}
	for i, u := range run {
		w.encodeUses(tx.objects[u].stored, nil)
		first := true
		eachReference(tx.objects[u].stored, func(r *lifecycle.OwnerReference, c lifecycle.Coordinates, _ lifecycle.Counts) {
			next = edgeKey(next[:0], r.UID, claimHash(c), "")
			switch {
			case !first:
				w.delete(append(next, u...))
			case !bytes.Equal(next, prefix):
				end(i)
				prefix, from = append(prefix[:0], next...), i
			}
			first = false
		})
	}
	end(len(run))
}
