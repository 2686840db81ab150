package propagator

import (
	"context"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// An owner becomes solid when it is created after its dependents, or when it does
// not wait for them any longer. Then nothing is pending because of it. But a
// dependent that was not stripped of other references, because no solid owner kept
// it, has to be stripped now. The rows of those other owners have been published,
// and do not change; so the dependents of the solid owner are published.

// becameSolid publishes the dependents of an owner that became solid for which
// another owner has pending work: here if they are few, in a walk if they are many.
func (r *round) becameSolid(ctx context.Context, snap *state.Snapshot, u uid.UID) error {
	owner := snap.Node(u)
	if owner == nil || owner.Waiting() {
		return nil // its own row says what is pending
	}
	list, tooMany := r.upToChunk(snap, u, snap.ValidClaims(owner, true))
	if tooMany {
		r.p.addWalk(walk{ofSolid, u})
		return nil
	}
	return r.keptBy(ctx, snap, u, list)
}

// walkSolid publishes the dependents of an owner that became solid for which another
// owner has pending work.
func (p *Propagator) walkSolid(ctx context.Context, u uid.UID) error {
	b := p.newPublisher()
	var cursor state.Edge
	err := p.pages(func(snap *state.Snapshot) (bool, error) {
		owner := snap.Node(u)
		if owner == nil || owner.Waiting() {
			return false, nil
		}
		var found []uid.UID
		snap.Dependents(u, snap.ValidClaims(owner, true), cursor, func(e state.Edge, d uid.UID) bool {
			cursor, found = e, append(found, d)
			return len(found) < p.page()
		})
		return len(found) == p.page(), b.keptBy(ctx, snap, u, found)
	})
	if err != nil {
		return err
	}
	return b.flush(ctx)
}

// keptBy publishes those of the dependents of a solid owner for which another owner
// has pending work.
func (b *publisher) keptBy(ctx context.Context, snap *state.Snapshot, owner uid.UID, list []uid.UID) error {
	snap.Prefetch(list)
	pending := map[uid.UID]bool{owner: false} // by owner, what is known
	for _, d := range list {
		n := snap.Node(d)
		if n == nil || n.Terminating() || !b.p.anyPending(snap, n, pending) {
			continue
		}
		b.dirty.add(owner, snap.Revision(), d)
		if err := b.sendFull(ctx, &b.dirty); err != nil {
			return err
		}
	}
	return nil
}

// anyPending reports whether an owner of n has pending work for processors that is
// due. It remembers owners in known.
func (p *Propagator) anyPending(snap *state.Snapshot, n *lifecycle.Node, known map[uid.UID]bool) bool {
	for i := range n.Owners {
		u := n.Owners[i].UID
		due, ok := known[u]
		if !ok {
			if row, exists := snap.Pending(u); exists && row.Evaluate {
				pending := lifecycle.PendingOf(snap, u, snap.Node(u))
				due = pending.Evaluate && pending.EvaluateAt <= p.now()
			}
			known[u] = due
		}
		if due {
			return true
		}
	}
	return false
}
