package propagator

import (
	"context"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// An owner that comes to hold its dependents, because it turns up or waits for
// them no longer, owes them nothing. But others may: what was to be kept since
// not all of its owners were known, or to be collected since none held it, is to
// be parted from those that do not. Their rows have been published, and do not
// change; so it is handed out again.

// holds remembers such an owner.
func (p *Propagator) holds(u uid.UID) {
	if p.rescan {
		return
	}
	if len(p.holders) >= maxHints {
		p.lookAtAll()
		return
	}
	p.holders[u] = true
}

// holder hands out the dependents of such an owner that another owes something:
// here if they are few, beside if they are many.
func (r *round) holder(ctx context.Context, snap *state.Snapshot, u uid.UID) error {
	var cursor state.Edge
	if more, err := r.held(ctx, snap, u, &cursor, r.p.c.ChunkSize); err != nil || !more {
		return err
	}
	r.p.walkBeside(ctx, r.g, func() error {
		beside := &round{p: r.p, out: r.p.newOutbox()}
		for {
			snap := r.p.c.State.Snapshot()
			more, err := beside.held(ctx, snap, u, &cursor, r.p.page())
			if fail := closeSnapshot(snap); err == nil {
				err = fail
			}
			if err == nil && !more {
				err = beside.flush(ctx)
			}
			if err != nil || !more {
				return r.p.outcome(ctx, err)
			}
		}
	})
	return nil
}

// held looks at some dependents of u behind the cursor, and reports whether
// there are more.
func (r *round) held(ctx context.Context, snap *state.Snapshot, u uid.UID, cursor *state.Edge, page int) (more bool, err error) {
	owner := snap.Node(u)
	if owner == nil || owner.Waiting() {
		return false, nil // then its own row says so
	}
	var found []uid.UID
	snap.Dependents(u, snap.ValidClaims(owner, true), *cursor, func(e state.Edge, d uid.UID) bool {
		*cursor = e
		found = append(found, d)
		return len(found) < page
	})
	snap.Prefetch(found)
	owes := map[uid.UID]bool{u: false}
	for _, d := range found {
		n := snap.Node(d)
		if n == nil || n.Terminating() || !r.p.owed(snap, n, owes) {
			continue
		}
		r.dirty.add(u, snap.Revision(), d)
		if err := r.flushFull(ctx); err != nil {
			return false, err
		}
	}
	return len(found) == page, nil
}

// owed reports whether an owner of n owes it to be judged by now. Of which owners
// that is known is kept in owes.
func (p *Propagator) owed(snap *state.Snapshot, n *lifecycle.Node, owes map[uid.UID]bool) bool {
	for i := range n.Owners {
		u := n.Owners[i].UID
		judge, known := owes[u]
		if !known {
			if row, ok := snap.Owed(u); ok && row.Judge {
				fresh := lifecycle.OwedBy(snap, u, snap.Node(u))
				judge = fresh.Judge && fresh.JudgeAt <= lifecycle.TimeOf(p.c.Now())
			}
			owes[u] = judge
		}
		if judge {
			return true
		}
	}
	return false
}
