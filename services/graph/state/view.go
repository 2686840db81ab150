package state

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Node implements lifecycle.View.
func (tx *Tx) Node(u uid.UID) *lifecycle.Node { return tx.object(u).now }

// Lookup implements lifecycle.View.
func (tx *Tx) Lookup(kind *lifecycle.Kind, namespace, name string) uid.UID {
	ref := nameRef{kind.Resource(), namespace, name}
	u, ok := tx.names[ref]
	if !ok {
		if u, ok = tx.underNamed(ref); !ok {
			u = tx.storedName(ref.resource, namespace, name)
		}
		tx.names[ref] = u
	}
	if u == "" {
		return ""
	}
	// The object that had the name last may have been removed.
	if n := tx.object(u).now; n == nil || n.Name != name || n.Namespace != namespace || n.Kind != kind.Kind || n.Group() != kind.Group {
		return ""
	}
	return u
}

// underNamed returns the object that has a name, if a Tx under this one knows it.
func (tx *Tx) underNamed(ref nameRef) (u uid.UID, ok bool) {
	for t := tx.under; !ok && t != nil; t = t.under {
		u, ok = t.names[ref]
	}
	return u, ok
}

// Body implements lifecycle.View.
func (tx *Tx) Body(n *lifecycle.Node) *coppicev1.Body {
	o := tx.object(n.UID)
	if o.body == nil {
		return tx.r.body(n.UID)
	}
	b := &coppicev1.Body{}
	if err := proto.Unmarshal(o.body, b); err != nil {
		return tx.r.malformed(n, err)
	}
	return b
}

// owner returns the counters on a uid.
func (tx *Tx) owner(u uid.UID) *owner {
	if tx.lastOwner != nil && tx.lastOwner.uid == u {
		return tx.lastOwner
	}
	w, ok := tx.owners[u]
	if !ok {
		w = &owner{uid: u}
		tx.load(u, &w.all)
		tx.owners[u] = w
	}
	tx.lastOwner = w
	return w
}

// load reads a counter. An object that never had a dependent has none.
func (tx *Tx) load(u uid.UID, e *claim) {
	if was := tx.inherited(u, e.c); was != nil {
		e.counter, e.stored = was.counter, was.All > 0
		return
	}
	if o := tx.object(u); o.stored == nil || o.storedKin.parent {
		e.counter = tx.r.counter(u, e.c)
		e.stored = e.All > 0
	}
}

// inherited returns a counter as the nearest Tx under this one has it; nil if none has.
func (tx *Tx) inherited(u uid.UID, c lifecycle.Coordinates) *claim {
	return nearest(tx, func(t *Tx) *claim {
		w := t.owners[u]
		switch {
		case w == nil:
			return nil
		case c == (lifecycle.Coordinates{}):
			return &w.all
		}
		return w.find(c)
	})
}

// underOwns reports whether a Tx under this one has counters on a uid.
func (tx *Tx) underOwns(u uid.UID) bool {
	return nearest(tx, func(t *Tx) *owner { return t.owners[u] }) != nil
}

// claim returns the counter of one claim, and reads it if it is not cached.
func (tx *Tx) claim(w *owner, c lifecycle.Coordinates) *claim {
	if c == (lifecycle.Coordinates{}) {
		return &w.all
	}
	if e := w.find(c); e != nil {
		return e
	}
	e := &claim{c: c}
	if !w.whole {
		tx.load(w.uid, e)
	}
	w.claims = append(w.claims, e)
	if w.index == nil && len(w.claims) > fewClaims {
		w.index = map[lifecycle.Coordinates]*claim{}
		for _, e := range w.claims {
			w.index[e.c] = e
		}
	} else if w.index != nil {
		w.index[c] = e
	}
	return e
}

// Count implements lifecycle.View.
func (tx *Tx) Count(owner uid.UID, claims lifecycle.Claims) lifecycle.Counts {
	if o := tx.object(owner); o.now != nil && !o.nowKin.parent {
		return lifecycle.Counts{}
	}
	return tx.count(owner, claims)
}

func (tx *Tx) count(owner uid.UID, claims lifecycle.Claims) lifecycle.Counts {
	if !claims.AnyNamespace {
		return tx.claim(tx.owner(owner), claims.Coordinates).Counts
	}
	var sum lifecycle.Counts
	tx.eachClaim(owner, claims.Coordinates, func(c lifecycle.Coordinates, n counter) bool {
		if claims.Contains(c) {
			sum = sum.Plus(n.Counts)
		}
		return true
	})
	return sum
}

// eachClaim calls visit for the counters of an owner that are not zero: first those that
// are stored, with their current values, then the new ones.
func (tx *Tx) eachClaim(u uid.UID, prefix lifecycle.Coordinates, visit func(lifecycle.Coordinates, counter) bool) {
	w := tx.owner(u)
	for t := tx.under; t != nil && !t.applied.Load(); t = t.under {
		if was := t.owners[u]; was != nil {
			for _, e := range was.claims {
				tx.claim(w, e.c)
			}
		}
	}
	more := true
	var stored []lifecycle.Coordinates
	tx.r.claims(u, prefix, func(c lifecycle.Coordinates, n counter) bool {
		stored = append(stored, c)
		if e := w.find(c); e != nil {
			n = e.counter
		}
		if n.All > 0 {
			more = visit(c, n)
		}
		return more
	})
	known := anyOf(stored)
	for _, e := range w.claims {
		if more && e.All > 0 && !known(e.c) {
			more = visit(e.c, e.counter)
		}
	}
}

// anyOf returns a function that reports whether coordinates are in the list. The list may
// be long: dependents can have many different claims on one owner.
func anyOf(list []lifecycle.Coordinates) func(lifecycle.Coordinates) bool {
	if len(list) <= fewClaims {
		return func(c lifecycle.Coordinates) bool { return slices.Contains(list, c) }
	}
	set := make(map[lifecycle.Coordinates]struct{}, len(list))
	for _, c := range list {
		set[c] = struct{}{}
	}
	return func(c lifecycle.Coordinates) bool {
		_, ok := set[c]
		return ok
	}
}

// ClaimsOn implements lifecycle.View.
func (tx *Tx) ClaimsOn(owner uid.UID, limit int) []lifecycle.Claimed {
	var list []lifecycle.Claimed
	tx.eachClaim(owner, lifecycle.Coordinates{}, func(at lifecycle.Coordinates, c counter) bool {
		list = append(list, lifecycle.Claimed{Coordinates: at, Counts: c.Counts, LastImport: c.lastImport, FirstImport: c.firstImport})
		return len(list) < limit
	})
	return list
}

// Removed implements lifecycle.View.
func (tx *Tx) Removed(u uid.UID, c lifecycle.Coordinates) (revision uint64, ok bool) {
	e := tx.removal(u)
	return e.revision, e.revision != 0 && e.claim == claimHash(c)
}

// removal returns the record of an object's removal: by this Tx, in the rows of absent
// owners, or in the window of removed uids. The revision is zero if there is none.
func (tx *Tx) removal(u uid.UID) removal {
	if e := tx.object(u).removal; e.revision != 0 && (e.sequence == 0 || e.sequence >= tx.removedSince) {
		return e
	}
	if a := tx.absence(u); a.ok {
		return removal{uid: u, revision: a.revision, claim: a.claim}
	}
	return tx.r.removal(u, tx.removedSince)
}

// absence returns the row of an absent owner that still has dependents.
func (tx *Tx) absence(u uid.UID) *absence {
	a, ok := tx.absent[u]
	if !ok {
		a = &absence{}
		if was := tx.underAbsence(u); was != nil {
			a.revision, a.claim, a.ok = was.revision, was.claim, was.ok
		} else if tx.object(u).stored == nil {
			a.revision, a.claim, a.ok = tx.r.absent(u)
		}
		tx.absent[u] = a
	}
	return a
}

func (tx *Tx) underAbsence(u uid.UID) *absence {
	return nearest(tx, func(t *Tx) *absence { return t.absent[u] })
}
