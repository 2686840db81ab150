package state

import (
	"cmp"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// To read many rows at once is several times cheaper than to read one after the other. A
// Snapshot and a Tx prefetch the keys that they do not know (unknown) with the passes of a
// reader (prefetchrows.go), and differ in where they keep what was read.

// unknown returns the keys that are not known, sorted and without duplicates.
func unknown[K cmp.Ordered](keys []K, known func(K) bool) []K {
	list := make([]K, 0, len(keys))
	for _, k := range keys {
		if !known(k) {
			list = append(list, k)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
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

// Prefetch reads many nodes at once into the snapshot's cache.
func (s *Snapshot) Prefetch(uids []uid.UID) {
	missing := unknown(uids, func(u uid.UID) bool {
		_, ok := s.nodes[u]
		return ok
	})
	if len(s.nodes) == 0 {
		s.nodes = make(map[uid.UID]cached, len(missing)+8)
	}
	s.r.prefetch(missing, func(u uid.UID, c cached) { s.nodes[u] = c })
	if s.Err() == nil {
		s.recent.add(s.generation, missing, s.nodes)
	}
}

// PrefetchCounts reads the counters on uids whose nodes have been read, and the removals
// of those that do not exist.
func (s *Snapshot) PrefetchCounts(uids []uid.UID) {
	missing := unknown(uids, func(u uid.UID) bool {
		c := s.cached(u)
		return c.node != nil && !c.parent || s.owners[u] != nil
	})
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
	gone := unknown(sorted, func(u uid.UID) bool {
		_, ok := s.removals[u]
		return ok || s.cached(u).node != nil
	})
	s.r.prefetchAbsent(gone, func(u uid.UID, revision, claim uint64, ok bool) {
		if ok {
			s.removals[u] = removal{uid: u, revision: revision, claim: claim}
		}
	})
}

// Prefetch reads many nodes at once into the Tx's cache, and the rows of those that have dependents.
func (tx *Tx) Prefetch(uids []uid.UID) {
	missing := unknown(uids, func(u uid.UID) bool {
		if tx.objects[u] != nil {
			return true
		}
		under, _ := tx.underObject(u)
		if under != nil {
			tx.object(u)
		}
		return under != nil
	})
	room := make([]object, len(missing))
	if len(tx.objects) == 0 {
		tx.objects = make(map[uid.UID]*object, len(missing)+8)
	}
	var parents []uid.UID
	visit := func(u uid.UID, c cached) {
		o := &room[0]
		room = room[1:]
		*o = object{stored: c.node, now: c.node, storedKin: c.kin, nowKin: c.kin}
		tx.objects[u] = o
		if c.parent {
			parents = append(parents, u)
		}
	}
	if tx.s != nil {
		missing = tx.s.recent.find(missing, visit)
	}
	tx.r.prefetch(missing, visit)
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
	if tx.r.failure != nil {
		return // some may not have been read
	}
	tx.prefetchOwners(unknown(owners, func(u uid.UID) bool {
		o := tx.objects[u]
		return o.stored != nil && !o.storedKin.parent || tx.owners[u] != nil || tx.underOwns(u)
	}))
	gone := unknown(owners, func(u uid.UID) bool {
		return tx.objects[u].stored != nil || tx.absent[u] != nil || tx.underAbsence(u) != nil
	})
	tx.r.prefetchAbsent(gone, func(u uid.UID, revision, claim uint64, ok bool) {
		tx.absent[u] = &absence{revision: revision, claim: claim, ok: ok}
	})
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
	missing := unknown(names, func(name string) bool {
		ref := nameRef{kind.Resource(), namespace, name}
		_, known := tx.names[ref]
		if !known {
			_, known = tx.underNamed(ref)
		}
		return known
	})
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
