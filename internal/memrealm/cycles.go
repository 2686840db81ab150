package memrealm

import (
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// collectCycles collects the unreachable cycles that have one of these objects, or a dependent of
// one, if the realm settings say so and the realm is not that of a plan. It reports whether there
// were any.
func (r *Realm) collectCycles(uids map[uid.UID]bool) (collected bool) {
	if r.Plan || r.settings.UnreachableCycles != lifecycle.CollectCycles {
		return false
	}
	seeds := maps.Clone(uids)
	for u := range uids {
		for d := range r.dependents[u] {
			seeds[d] = true
		}
	}
	for _, u := range slices.Sorted(maps.Keys(seeds)) {
		if members := r.cycleOf(u); members != nil {
			events := lifecycle.CollectUnreachable(r.Context(), members)
			r.Apply(events)
			collected = collected || len(events) > 0
		}
	}
	return collected
}

// cycleOf returns the objects that own an object through any number of references and that it
// owns in the same way, with itself; nil if there are none.
func (r *Realm) cycleOf(u uid.UID) (members []*lifecycle.Node) {
	own := r.above(u)
	if !own[u] {
		return nil
	}
	for _, o := range slices.Sorted(maps.Keys(own)) {
		if r.above(o)[u] {
			members = append(members, r.nodes[o])
		}
	}
	return members
}

// above returns the owners of an object, the owners of these, and so on, without those that are
// being deleted.
func (r *Realm) above(u uid.UID) map[uid.UID]bool {
	found, next := map[uid.UID]bool{}, []uid.UID{u}
	for len(next) > 0 {
		n := r.nodes[next[0]]
		next = next[1:]
		if n == nil || n.Terminating() {
			continue
		}
		for i := range n.Owners {
			o := &n.Owners[i]
			if owner := r.nodes[o.UID]; owner != nil && !found[o.UID] && !owner.Terminating() && lifecycle.Fits(n, o, owner) {
				found[o.UID] = true
				next = append(next, o.UID)
			}
		}
	}
	return found
}
