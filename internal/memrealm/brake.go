package memrealm

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// brake counts an event that is about to be applied, and ends the release of its object.
func (r *Realm) brake(e *lifecycle.Event, before, after *lifecycle.Node) {
	if before == nil {
		return
	}
	if k, b, counted := lifecycle.CountDeletion(r, e, before, r.Clock); counted {
		r.brakes[k.Resource()] = b
	}
	if after == nil || after.Terminating() || !lifecycle.SameOwners(before, after) {
		delete(r.released, before.UID)
	}
}

// paused returns the objects that the collector would delete if their brakes were not
// tripped, of one kind unless that is nil. They are sorted.
func (r *Realm) paused(k *lifecycle.Kind) []uid.UID {
	var found []uid.UID
	for _, u := range r.UIDs() {
		n := r.nodes[u]
		if k != nil && r.kinds.OfNode(n) != k || n.Terminating() || !lifecycle.Braked(r, n) {
			continue
		}
		drained := false
		for _, c := range r.nodes {
			drained = drained || c.Draining() && lifecycle.Contains(r, c, n)
		}
		if drained || lifecycle.Evaluate(r, n, r.Clock).Decision == lifecycle.Pause {
			found = append(found, u)
		}
	}
	return found
}

// Pending returns what a release of the brake of a kind lets through now: the objects of
// the kind whose deletion it pauses, and every object that the collector deletes because of
// them, if every blocker does its part (B4.4). due are objects of the kind that have expired, or
// to which an expiry policy applies. It changes nothing.
func (r *Realm) Pending(k *lifecycle.Kind, due ...uid.UID) []uid.UID {
	plan := r.Clone()
	var let []uid.UID
	before := map[uid.UID]bool{}
	for _, u := range plan.paused(nil) {
		before[u] = true
	}
	more := plan.paused(k)
	for _, u := range due {
		if n := r.nodes[u]; lifecycle.Releasable(n) && lifecycle.Braked(r, n) && !n.Protected() && !slices.Contains(more, u) {
			more = append(more, u)
		}
	}
	for len(more) > 0 {
		for _, u := range more {
			plan.released[u] = true
		}
		let = append(let, more...)
		for _, u := range due {
			if n := plan.nodes[u]; n != nil {
				events, _, _ := lifecycle.ExpireMatching(plan.Context(), n, nil, lifecycle.Match{Revision: n.Revision, Applies: true, At: plan.Clock, Seen: plan.Clock})
				plan.Apply(events)
			}
		}
		plan.Settle(InOrder)
		more = nil
		for _, u := range plan.paused(nil) {
			if !before[u] {
				more = append(more, u)
			}
		}
	}
	return let
}

// ReleaseBrake releases the brake of a kind: it lets the deletion of the objects through, and
// ends the trip.
func (r *Realm) ReleaseBrake(k *lifecycle.Kind, let []uid.UID) {
	for _, u := range let {
		if lifecycle.Releasable(r.nodes[u]) {
			r.released[u] = true
		}
	}
	b := r.brakes[k.Resource()].Release()
	r.brakes[k.Resource()] = b
}
