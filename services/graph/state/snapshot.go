package state

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Snapshot is the state at one revision. It is a lifecycle.View, for one
// goroutine, and must be closed. Ask Err before relying on what it said.
type Snapshot struct {
	r          reader
	snap       *pebble.Snapshot
	kinds      *lifecycle.Kinds
	options    lifecycle.Options
	checkpoint *coppicev1.Checkpoint
	nodes      map[uid.UID]cached
	recent     *recent
	generation uint64 // in recent
	removals   map[uid.UID]removal
	owners     map[uid.UID]*owner // whole, but for those with many claims
}

type cached struct {
	node   *lifecycle.Node
	parent bool
}

var _ lifecycle.View = (*Snapshot)(nil)

// Snapshot returns the state as of now.
func (s *State) Snapshot() *Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap := s.db.NewSnapshot()
	return &Snapshot{
		r:          reader{db: snap, removed: s.removed, idle: map[byte]*pebble.Iterator{}},
		snap:       snap,
		kinds:      s.kinds,
		options:    s.options,
		checkpoint: s.checkpoint,
		nodes:      map[uid.UID]cached{},
		recent:     s.recent,
		generation: s.recent.now(),
		removals:   map[uid.UID]removal{},
		owners:     map[uid.UID]*owner{},
	}
}

// Close releases the snapshot.
func (s *Snapshot) Close() error { return errors.Join(s.r.close(), s.snap.Close()) }

// Err is the first failure of a read. After it nothing the snapshot said holds.
func (s *Snapshot) Err() error { return s.r.failure }

// Revision is that of the last object event.
func (s *Snapshot) Revision() uint64 { return s.checkpoint.GetRevision() }

// Checkpoint is the place in the log. It must not be modified.
func (s *Snapshot) Checkpoint() *coppicev1.Checkpoint { return s.checkpoint }

// Time is that of the last commit.
func (s *Snapshot) Time() lifecycle.Time { return lifecycle.Time(s.checkpoint.GetTime()) }

// Kinds implements lifecycle.View.
func (s *Snapshot) Kinds() *lifecycle.Kinds { return s.kinds }

// Options implements lifecycle.View.
func (s *Snapshot) Options() lifecycle.Options { return s.options }

func (s *Snapshot) cached(u uid.UID) cached {
	c, ok := s.nodes[u]
	if !ok {
		c.node, c.parent = s.r.node(u)
		s.nodes[u] = c
	}
	return c
}

// Node implements lifecycle.View.
func (s *Snapshot) Node(u uid.UID) *lifecycle.Node { return s.cached(u).node }

// Prefetch reads many nodes at once, which is several times cheaper than one
// after the other.
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
	s.r.prefetch(missing, func(u uid.UID, n *lifecycle.Node, parent bool) {
		s.nodes[u] = cached{n, parent}
	})
	if s.Err() == nil {
		s.recent.add(s.generation, missing, s.nodes)
	}
}

// EachParent calls visit for the live objects that have dependents, or have had
// some, in the order of their uids, until it returns false. It remembers none.
func (s *Snapshot) EachParent(visit func(*lifecycle.Node) bool) {
	s.r.scan("nodes", []byte{tableNode}, nil, func(_, value []byte) bool {
		if !isParent(value) {
			return true
		}
		n, _, err := decodeNodeValue(value)
		if err != nil {
			s.r.fail("nodes", err)
			return false
		}
		return visit(n)
	})
}

// PrefetchCounts reads the counters on uids, of which the nodes have been read,
// and when those were removed that are not there.
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

// PrefetchOwners reads the nodes of the owners of objects, which have been read
// themselves, and when those were removed that are not there.
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

// prefetchRemovals reads when owners were removed that are not there, and that
// dependents still point to.
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

// owner returns the counters on a uid.
func (s *Snapshot) owner(u uid.UID) *owner {
	if s.owners[u] == nil {
		s.owners[u] = &owner{uid: u} // if there are many
		s.prefetchCounts([]uid.UID{u})
	}
	return s.owners[u]
}

// Forget drops the nodes that were read, so that a long walk does not keep
// them all, and what belongs to them.
func (s *Snapshot) Forget() {
	clear(s.nodes)
	clear(s.owners)
}

// Lookup implements lifecycle.View.
func (s *Snapshot) Lookup(kind *lifecycle.Kind, namespace, name string) uid.UID {
	return s.r.lookup(kind.Resource(), namespace, name)
}

// Body implements lifecycle.View.
func (s *Snapshot) Body(n *lifecycle.Node) *coppicev1.Body { return s.r.body(n.UID) }

// Count implements lifecycle.View.
func (s *Snapshot) Count(owner uid.UID, claims lifecycle.Claims) lifecycle.Counts {
	if c := s.cached(owner); c.node != nil && !c.parent {
		return lifecycle.Counts{}
	}
	if !claims.AnyNamespace {
		return s.counter(owner, claims.Coordinates).Counts
	}
	var sum lifecycle.Counts
	s.claims(owner, claims.Coordinates, func(_ lifecycle.Coordinates, c counter) bool {
		sum = sum.Plus(c.Counts)
		return true
	})
	return sum
}

func (s *Snapshot) counter(u uid.UID, c lifecycle.Coordinates) counter {
	w := s.owner(u)
	switch {
	case !w.whole:
		return s.r.counter(u, c)
	case c == lifecycle.Coordinates{}:
		return w.all.counter
	}
	if e := w.find(c); e != nil {
		return e.counter
	}
	return counter{}
}

// claims is reader.claims.
func (s *Snapshot) claims(u uid.UID, of lifecycle.Coordinates, visit func(lifecycle.Coordinates, counter) bool) {
	w := s.owner(u)
	if !w.whole {
		s.r.claims(u, of, visit)
		return
	}
	for _, e := range w.claims {
		at := e.c
		at.Namespace = of.Namespace
		if (of == lifecycle.Coordinates{} || at == of) && !visit(e.c, e.counter) {
			return
		}
	}
}

// ClaimsOn implements lifecycle.View.
func (s *Snapshot) ClaimsOn(owner uid.UID, limit int) []lifecycle.Claimed {
	var list []lifecycle.Claimed
	s.claims(owner, lifecycle.Coordinates{}, func(at lifecycle.Coordinates, c counter) bool {
		list = append(list, lifecycle.Claimed{Coordinates: at, Counts: c.Counts, LastImport: c.lastImport, FirstImport: c.firstImport})
		return len(list) < limit
	})
	return list
}

// Removed implements lifecycle.View.
func (s *Snapshot) Removed(u uid.UID, c lifecycle.Coordinates) (revision uint64, ok bool) {
	e, known := s.removals[u]
	if !known {
		// Among the owners that dependents still point to, or in the window.
		var found bool
		e.uid = u
		if e.revision, e.claim, found = s.r.absent(u); !found {
			e = s.r.removal(u, 0)
		}
		s.removals[u] = e
	}
	return e.revision, e.revision != 0 && e.claim == claimHash(c)
}

// Session implements lifecycle.View.
func (s *Snapshot) Session(id string) lifecycle.Session { return s.r.session(id, s.Options()) }

// SessionEnd is when an import session that is open now ends if nothing more
// comes, the first of them; lifecycle.Never if none is open.
func (s *Snapshot) SessionEnd(now lifecycle.Time) lifecycle.Time {
	first := lifecycle.Never
	s.r.scan("sessions", []byte{tableSession}, nil, func(_, value []byte) bool {
		var last uint64
		if err := decodeUvarints(value, &last); err != nil {
			s.r.fail("sessions", err)
			return false
		}
		if end := lifecycle.Time(last).Add(s.Options().SessionIdle); end > now {
			first = min(first, end)
		}
		return true
	})
	return first
}

// AnyOf implements lifecycle.View.
func (s *Snapshot) AnyOf(k *lifecycle.Kind) string { return s.r.any(namePrefix(k.Resource(), "")) }

// AnyIn implements lifecycle.View.
func (s *Snapshot) AnyIn(namespace string) string { return anyIn(&s.r, s.kinds, namespace) }

func anyIn(r *reader, kinds *lifecycle.Kinds, namespace string) string {
	for _, k := range kinds.All() {
		if k.Namespaced() {
			if name := r.any(namePrefix(k.Resource(), namespace)); name != "" {
				return name
			}
		}
	}
	return ""
}

// Names calls visit for the objects of a kind, in one namespace unless it is
// empty, ordered by namespace and name, behind the name that After describes,
// until visit returns false.
func (s *Snapshot) Names(k *lifecycle.Kind, namespace string, after NameCursor, visit func(namespace, name string, u uid.UID) bool) {
	s.r.names(k, namespace, after, visit)
}

// NameCursor is a place among the names of a kind; the zero value is the start.
type NameCursor struct{ Namespace, Name string }

// Edge is a place among an owner's dependents; the zero value is the start.
type Edge struct {
	claim     uint64
	dependent uid.UID
}

// Dependents calls visit for the dependents of an owner, behind the place, in
// the order of the index, until visit returns false. only restricts them to
// those with a given claim, or to those without it. A dependent with several
// claims is visited once for each; one that is found under a claim need not
// make it (see claimHash), its node tells.
func (s *Snapshot) Dependents(owner uid.UID, only ClaimFilter, after Edge, visit func(Edge, uid.UID) bool) {
	prefix := edgePrefix(owner)
	var start []byte
	if after != (Edge{}) {
		start = append(edgeKey(nil, owner, after.claim, after.dependent), nul)
	}
	if only.claims != nil && !only.invert {
		// Few claims: one range for each, in order.
		for _, claim := range only.claims {
			if claim < after.claim {
				continue
			}
			from := edgeKey(nil, owner, claim, "")
			if start != nil && claim == after.claim {
				from = start
			}
			more := true
			s.r.scan("edges", edgeKey(nil, owner, claim, ""), from, func(key, _ []byte) bool {
				c, d := splitEdgeKey(key, owner)
				more = visit(Edge{c, d}, d)
				return more
			})
			if !more {
				return
			}
		}
		return
	}
	s.r.scan("edges", prefix, start, func(key, _ []byte) bool {
		c, d := splitEdgeKey(key, owner)
		if only.invert && slices.Contains(only.claims, c) {
			return true
		}
		return visit(Edge{c, d}, d)
	})
}

// ClaimFilter selects edges by what the dependents claim. The zero value
// selects all.
type ClaimFilter struct {
	claims []uint64 // sorted
	invert bool
}

// ValidClaims selects the dependents of n whose claim is true, or those whose
// claim is not.
func (s *Snapshot) ValidClaims(n *lifecycle.Node, valid bool) ClaimFilter {
	f := ClaimFilter{invert: !valid, claims: []uint64{}}
	if n.Namespace != "" {
		f.claims = append(f.claims, Identity(n))
		return f
	}
	s.claims(n.UID, n.Coordinates(), func(c lifecycle.Coordinates, _ counter) bool {
		f.claims = append(f.claims, claimHash(c))
		return true
	})
	slices.Sort(f.claims)
	return f
}

// Owed returns what is owed because of u.
func (s *Snapshot) Owed(u uid.UID) (OwedRow, bool) { return s.r.owed(u) }

// EachOwedTo calls visit for what is owed because of uids, which are sorted.
func (s *Snapshot) EachOwedTo(sorted []uid.UID, visit func(uid.UID, OwedRow)) {
	s.r.prefetchRows("owed", tableOwed, sorted, 1, func(u uid.UID, rows []stored, _ bool) {
		for _, r := range rows {
			row, err := decodeOwed(r.value)
			if err != nil {
				s.r.fail("owed", err)
				return
			}
			visit(u, row)
		}
	})
}

// EachOwed calls visit for what is owed, behind the uid, in order, until visit
// returns false.
func (s *Snapshot) EachOwed(after uid.UID, visit func(uid.UID, OwedRow) bool) {
	var start []byte
	if after != "" {
		start = append(keyOfUID(tableOwed, after), nul)
	}
	s.r.scan("owed", []byte{tableOwed}, start, func(key, value []byte) bool {
		row, err := decodeOwed(value)
		if err != nil {
			s.r.fail("owed", err)
			return false
		}
		return visit(uid.UID(key[1:]), row)
	})
}

// SequenceOf returns where in the log to start reading for a revision: at the
// sequence of a commit that is not behind it.
func (s *Snapshot) SequenceOf(revision uint64) uint64 {
	sequence := uint64(1)
	it, err := s.r.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableIndex}, UpperBound: []byte{tableIndex + 1}})
	if err != nil {
		s.r.fail("index", err)
		return sequence
	}
	if it.SeekLT(numberKey(tableIndex, revision+1)) {
		value, err := it.ValueAndErr()
		if err == nil {
			err = decodeUvarints(value, &sequence)
		}
		if err != nil {
			s.r.fail("index", err)
		}
	}
	if err := it.Close(); err != nil {
		s.r.fail("index", err)
	}
	return cmp.Or(sequence, 1)
}

// RemovedAt returns the commit that removed an object, if that is still known.
func (s *Snapshot) RemovedAt(u uid.UID) (sequence uint64, ok bool) {
	return s.r.removed.find(uidHash(u))
}
