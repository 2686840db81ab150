package state

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// owner has the counters of the dependents that refer to one uid, without those counters that
// were neither read nor changed. The object need not exist.
type owner struct {
	uid    uid.UID
	all    claim // sum over all claims
	claims []*claim
	whole  bool                             // claims has all counters that are not zero
	index  map[lifecycle.Coordinates]*claim // the same as claims; nil while there are at most fewClaims
	grew   bool                             // the open commit has called grow for this owner
	keeps  bool                             // the open commit makes the object keep its dependents: see WorkChange.Keeps
}

// fewClaims is the maximum number of claims that are searched without an index.
const fewClaims = 8

// claim is the counter of the dependents that refer to an owner by the same coordinates.
type claim struct {
	c       lifecycle.Coordinates
	counter      // now
	stored  bool // there is a row in the state, or a Tx under this one has one
	dirty   bool // changed by this Tx
}

// find returns a counter that was read before, or nil.
func (w *owner) find(c lifecycle.Coordinates) *claim {
	if w.index != nil {
		return w.index[c]
	}
	for _, e := range w.claims {
		if e.c == c {
			return e
		}
	}
	return nil
}

// owner returns the counters on a uid.
func (s *Snapshot) owner(u uid.UID) *owner {
	if s.owners[u] == nil {
		s.owners[u] = &owner{uid: u} // without the counters, if there are many
		s.prefetchCounts([]uid.UID{u})
	}
	return s.owners[u]
}

// Count implements lifecycle.View.
func (s *Snapshot) Count(owner uid.UID, claims lifecycle.Claims) lifecycle.Counts {
	if c := s.cached(owner); c.node != nil && !c.parent {
		return lifecycle.Counts{}
	}
	return s.count(owner, claims)
}

func (s *Snapshot) count(owner uid.UID, claims lifecycle.Claims) lifecycle.Counts {
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
