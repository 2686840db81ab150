package memrealm

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Cover does the walks of protection policies that are not complete, and returns the events,
// which it applies.
func (r *Realm) Cover() (events []lifecycle.Event) {
	do := func(more []lifecycle.Event) {
		r.Apply(more)
		events = append(events, more...)
	}
	for _, p := range r.kinds.Policies() {
		status := lifecycle.PolicyStatusOf(r.bodies[p.UID]).Of(r.nodes[p.UID])
		if status.Complete {
			continue
		}
		for _, u := range r.UIDs() {
			n := r.nodes[u]
			if n.Group() != p.Group || n.Kind != p.Kind {
				continue
			}
			do(lifecycle.Cover(r.Context(), p, n))
			status.Covered++
			if n = r.nodes[u]; n.Protection != nil && p.Covers(r, r.kinds.OfNode(n), r.bodies[u].GetLabels()) {
				status.Protected++
			}
		}
		status.Complete = true
		do(lifecycle.Walked(r.Context(), r.nodes[p.UID], status))
	}
	return events
}
