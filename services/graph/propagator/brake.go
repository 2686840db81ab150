package propagator

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// The deletions that a tripped brake pauses are not published. When the brake is released,
// all rows are published again: see Released.

// unbraked returns those of the dependents whose deletion no brake pauses.
func (p *Propagator) unbraked(snap *state.Snapshot, list []uid.UID) []uid.UID {
	if !snap.AnyTripped() {
		return list
	}
	now := p.now()
	snap.Prefetch(list)
	snap.PrefetchOwners(list)
	return slices.DeleteFunc(list, func(u uid.UID) bool {
		n := snap.Node(u)
		return n != nil && lifecycle.Braked(snap, n) && lifecycle.Evaluate(snap, n, now).Decision == lifecycle.Pause
	})
}

// Released has all rows published again: a brake was released, and may have paused any of
// them.
func (p *Propagator) Released() { p.rows.AddAll(publishAgain) }
