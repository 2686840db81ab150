package state

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Prefetch reads many nodes at once into the snapshot's cache, which is several times
// cheaper than reading one after the other.
func (s *Snapshot) Prefetch(uids []uid.UID) {
	missing := make([]uid.UID, 0, len(uids))
	for _, u := range uids {
		if _, ok := s.nodes[u]; !ok {
			missing = append(missing, u)
		}
	}
	slices.Sort(missing)
	if len(s.nodes) == 0 {
		s.nodes = make(map[uid.UID]cached, len(missing)+8)
	}
	missing = slices.Compact(missing)
	s.r.prefetch(missing, func(u uid.UID, c cached) {
		c.generation = s.generation
		s.nodes[u] = c
	})
	if s.Err() == nil {
		s.recent.add(s.generation, missing, s.nodes)
	}
}

// PrefetchCounts reads the counters on uids whose nodes have been read, and the removals
// of those that do not exist.
func (s *Snapshot) PrefetchCounts(uids []uid.UID) {
	missing := make([]uid.UID, 0, len(uids))
	for _, u := range uids {
		if c := s.cached(u); (c.node == nil || c.parent) && s.owners[u] == nil {
			missing = append(missing, u)
		}
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	if len(missing) > 1 {
		s.prefetchCounts(missing)
		s.prefetchRemovals(missing)
	}
}

// PrefetchOwners reads the nodes of the owners of objects that have been read, and the
// removals of owners that do not exist.
func (s *Snapshot) PrefetchOwners(uids []uid.UID) {
	owners := ownersOf(uids, func(u uid.UID) *lifecycle.Node { return s.nodes[u].node })
	if len(owners) > 1 {
		s.Prefetch(owners)
		s.prefetchRemovals(owners)
	}
}

func (s *Snapshot) prefetchCounts(sorted []uid.UID) {
	s.r.prefetchOwners(sorted, func(w *owner) { s.owners[w.uid] = w })
}

// prefetchRemovals reads the removals of absent owners that still have dependents.
func (s *Snapshot) prefetchRemovals(sorted []uid.UID) {
	var gone []uid.UID
	for _, u := range sorted {
		if _, known := s.removals[u]; !known && s.cached(u).node == nil {
			gone = append(gone, u)
		}
	}
	if len(gone) == 0 {
		return
	}
	s.r.prefetchAbsent(gone, func(u uid.UID, revision, claim uint64, ok bool) {
		if ok {
			s.removals[u] = removal{uid: u, revision: revision, claim: claim}
		}
	})
}

// Prefetch reads many nodes at once into the Tx's cache.
func (tx *Tx) Prefetch(uids []uid.UID) {
	missing := make([]uid.UID, 0, len(uids))
	for _, u := range uids {
		if _, ok := tx.objects[u]; ok {
			continue
		}
		if under, _ := tx.underObject(u); under != nil {
			tx.object(u)
			continue
		}
		missing = append(missing, u)
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	room := make([]object, len(missing))
	if len(tx.objects) == 0 {
		tx.objects = make(map[uid.UID]*object, len(missing)+8)
	}
	var parents []uid.UID
	visit := func(u uid.UID, c cached) {
		o := &room[0]
		room = room[1:]
		*o = object{stored: c.node, now: c.node, storedParent: c.parent, nowParent: c.parent, behind: c.behind, generation: c.generation}
		tx.objects[u] = o
		if c.parent {
			parents = append(parents, u)
		}
	}
	var generation uint64
	if tx.s != nil {
		generation = tx.s.recent.now()
		missing = tx.s.recent.find(missing, visit)
	}
	tx.r.prefetch(missing, func(u uid.UID, c cached) {
		c.generation = generation
		visit(u, c)
	})
	if len(parents) > 1 {
		slices.Sort(parents)
		tx.prefetchOwners(parents)
	}
}

// PrefetchOwners reads the rows of owners that change when objects are removed. The
// objects have been read.
func (tx *Tx) PrefetchOwners(uids []uid.UID) {
	owners := ownersOf(uids, func(u uid.UID) *lifecycle.Node {
		if o := tx.objects[u]; o != nil {
			return o.now
		}
		return nil
	})
	if len(owners) < 2 {
		return
	}
	tx.Prefetch(owners)
	var gone, missing []uid.UID
	for _, u := range owners {
		o := tx.objects[u]
		if o == nil {
			return // it could not be read
		}
		if o.stored == nil && tx.absent[u] == nil && tx.underAbsence(u) == nil {
			gone = append(gone, u)
		}
		if (o.stored == nil || o.storedParent) && tx.owners[u] == nil && !tx.underOwns(u) {
			missing = append(missing, u)
		}
	}
	if len(missing) > 0 {
		tx.prefetchOwners(missing)
	}
	if len(gone) > 0 {
		tx.r.prefetchAbsent(gone, func(u uid.UID, revision, claim uint64, ok bool) {
			tx.absent[u] = &absence{revision: revision, claim: claim, ok: ok}
		})
	}
}

// ownersOf returns the owners of objects, sorted and without duplicates. node returns the
// node of an object, nil if it is not known.
func ownersOf(uids []uid.UID, node func(uid.UID) *lifecycle.Node) (owners []uid.UID) {
	for _, u := range uids {
		n := node(u)
		if n == nil {
			continue
		}
		for i := range n.Owners {
			// Dependents of the same owner often follow one another.
			if o := n.Owners[i].UID; len(owners) == 0 || owners[len(owners)-1] != o {
				owners = append(owners, o)
			}
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// prefetchOwners reads the counters and the work rows of uids, which must be sorted.
func (tx *Tx) prefetchOwners(sorted []uid.UID) {
	tx.r.prefetchOwners(sorted, func(w *owner) {
		if tx.owners[w.uid] == nil && !tx.underOwns(w.uid) {
			tx.owners[w.uid] = w
		}
	})
	tx.r.prefetchRows("pending", tableWork, sorted, 1, func(u uid.UID, rows []stored, _ bool) {
		if tx.pending[u] != nil || tx.underPending(u) != nil {
			return
		}
		e := &workEntry{}
		for _, row := range rows {
			var err error
			if e.row, err = decodeWorkRow(row.value); err != nil {
				tx.r.fail("pending", err)
			}
			e.ok, e.stored = true, true
		}
		tx.pending[u] = e
	})
}

// PrefetchNames reads the objects that have the names, and their nodes, in one pass.
func (tx *Tx) PrefetchNames(kind *lifecycle.Kind, namespace string, names []string) {
	missing := make([]string, 0, len(names))
	for _, name := range names {
		ref := nameRef{kind.Resource(), namespace, name}
		_, known := tx.names[ref]
		if !known {
			_, known = tx.underNamed(ref)
		}
		if !known {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	var found []uid.UID
	for _, name := range missing {
		u := tx.storedName(kind.Resource(), namespace, name)
		tx.names[nameRef{kind.Resource(), namespace, name}] = u
		if u != "" {
			found = append(found, u)
		}
	}
	tx.Prefetch(found)
}

// prefetch calls visit with the stored nodes of uids, which must be sorted, and with the
// uid whose row directly precedes each, if that was seen.
func (r *reader) prefetch(sorted []uid.UID, visit func(u uid.UID, c cached)) {
	if len(sorted) == 0 {
		return
	}
	it, err := r.cursor(tableNode, nil, nil)
	if err != nil {
		r.fail("nodes", err)
		return
	}
	var at uid.UID // the uid at the cursor, if it is one of them
	for i, u := range sorted {
		if r.ended("nodes") {
			break
		}
		if i == 0 && it.at == pebble.IterValid {
			at = uid.UID(it.Key()[1:]) // that was read before
		}
		r.key = appendUIDKey(r.key[:0], tableNode, u)
		r.end = append(append(r.end[:0], r.key...), nul)
		stepped := it.seek(r.key, r.end, i > 0) // objects that are removed in one commit are often neighbours
		if it.failure != nil {
			break // it is not known whether there is such a row
		}
		if it.at != pebble.IterValid || !bytes.Equal(it.Key(), r.key) {
			at = ""
			visit(u, cached{})
			continue
		}
		c := cached{}
		if stepped {
			c.behind = at
		}
		at = u
		value, err := it.ValueAndErr()
		if err == nil {
			if c.node, c.parent, err = decodeNodeValue(value); err == nil {
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
