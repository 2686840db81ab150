package state

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/uid"
)

// prefetch calls visit with the stored nodes of uids, which must be sorted.
func (r *reader) prefetch(sorted []uid.UID, visit func(u uid.UID, c cached)) {
	if len(sorted) == 0 {
		return
	}
	it, err := r.cursor(tableNode, nil, nil)
	if err != nil {
		r.fail("nodes", err)
		return
	}
	for i, u := range sorted {
		if r.ended("nodes") {
			break
		}
		r.key = appendUIDKey(r.key[:0], tableNode, u)
		r.end = append(append(r.end[:0], r.key...), nul)
		it.seek(r.key, r.end, i > 0) // objects that are removed in one commit are often neighbours
		if it.failure != nil {
			break // it is not known whether there is such a row
		}
		if it.at != pebble.IterValid || !bytes.Equal(it.Key(), r.key) {
			visit(u, cached{})
			continue
		}
		value, err := it.ValueAndErr()
		if err == nil {
			var c cached
			if c.node, c.kin, err = decodeNodeValue(value); err == nil {
				visit(u, c)
				continue
			}
		}
		r.fail("nodes", err)
		break
	}
	if it.failure != nil {
		r.fail("nodes", it.failure)
	}
	r.release("nodes", tableNode, it)
}

// stored is a row of a table.
type stored struct{ key, value []byte }

// prefetchRows calls visit with the rows of uids, which must be sorted: the rows whose
// keys begin with the table and the uid, at most limit of them, and whether these are all.
// The rows are valid during the call.
func (r *reader) prefetchRows(what string, table byte, sorted []uid.UID, limit int, visit func(u uid.UID, rows []stored, all bool)) {
	if len(sorted) == 0 {
		return
	}
	it, err := r.cursor(table, nil, nil)
	if err != nil {
		r.fail(what, err)
		return
	}
	rows, room := r.rows, r.room
	r.rows, r.room = nil, nil // visit may read, too
	for _, u := range sorted {
		if r.ended(what) {
			break
		}
		r.key = appendUIDKey(r.key[:0], table, u)
		r.end = appendPrefixEnd(r.end[:0], r.key)
		rows, room = rows[:0], room[:0]
		for it.seek(r.key, r.end, false); it.on(r.key) && len(rows) < limit; it.next(r.end) {
			value, err := it.ValueAndErr()
			if err != nil {
				r.fail(what, err)
				break
			}
			from := len(room)
			room = append(append(room, it.Key()...), value...)
			rows = append(rows, stored{room[from : from+len(it.Key())], room[from+len(it.Key()):]})
		}
		if it.failure != nil {
			break
		}
		visit(u, rows, !it.on(r.key))
	}
	r.rows, r.room = rows, room
	if it.failure != nil {
		r.fail(what, it.failure)
	}
	r.release(what, table, it)
}

// prefetchOwners calls visit with the counters on those of the uids, which must be sorted,
// that have few.
func (r *reader) prefetchOwners(sorted []uid.UID, visit func(*owner)) {
	r.prefetchRows("claims", tableClaim, sorted, 1+fewClaims, func(u uid.UID, rows []stored, all bool) {
		if !all {
			return
		}
		w := &owner{uid: u, whole: true}
		for i, row := range rows {
			c, err := decodeCounter(row.value)
			if err != nil {
				r.fail("claims", err)
				return
			}
			e := &w.all
			if i > 0 {
				e = &claim{c: splitClaim(row.key[1+len(u)+1:])}
				w.claims = append(w.claims, e)
			}
			e.counter, e.stored = c, true
		}
		visit(w)
	})
}

// prefetchAbsent calls visit with the rows of absent owners among uids, which must be
// sorted.
func (r *reader) prefetchAbsent(sorted []uid.UID, visit func(u uid.UID, revision, claim uint64, ok bool)) {
	r.prefetchRows("absent", tableAbsent, sorted, 1, func(u uid.UID, rows []stored, _ bool) {
		if len(rows) == 0 {
			visit(u, 0, 0, false)
			return
		}
		revision, claim, err := decodeAbsent(rows[0].value)
		if err != nil {
			r.fail("absent", err)
		}
		visit(u, revision, claim, err == nil)
	})
}
