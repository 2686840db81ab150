package state

import (
	"bytes"
	"iter"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// minRun is the smallest number of neighbouring objects whose rows are deleted by range:
// their nodes, their bodies and, if they have the same owner, their edges. A range costs
// about as much as one row, and saves the rows of all objects in it: in memtables, flushes
// and compactions.
const minRun = 8

// rangesPerObject is the maximum number of ranges in a memtable for each object of a run.
// The first reader after a range was added sorts all ranges of the memtable again.
const rangesPerObject = 2

// runs returns for each uid the number of objects in the run that begins with it, 0 if none
// does. All objects of a run are removed, their uids are consecutive in uids, and no other
// object is between them, neither in the state nor in what will be written before this Tx.
// uids must be sorted and have all objects whose stored form changes.
func (tx *Tx) runs(uids []uid.UID) []int {
	runs := make([]int, len(uids))
	limits := map[uint64]uid.UID{} // by generation
	joined := func(before, u uid.UID, o *object) bool {
		if o.behind != before {
			return false
		}
		// The neighbours are those of one generation. Objects that were created since
		// usually sort after them, because uids begin with the time.
		limit, ok := limits[o.generation]
		if !ok {
			born, known := tx.s.recent.bornSince(o.generation)
			if limit = first(born, tx.bornUnder); !known {
				limit = u // it is unknown which objects were created since
			}
			limits[o.generation] = limit
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
	if tx.s.ranges.Load() > rangesPerObject*int64(objects) {
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
func (w *writer) deleteRun(table byte, run []uid.UID) {
	w.key = appendUIDKey(w.key[:0], table, run[0])
	w.value = appendUIDKey(w.value[:0], table, run[len(run)-1])
	w.deleteRange(w.key, w.value)
}

// deleteEdges deletes the edges of a run. It deletes by range the edges of consecutive
// objects with the same first owner: between them there are only edges of the run.
func (tx *Tx) deleteEdges(w *writer, run []uid.UID) {
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
