package propagator

import (
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Dependents of an owner that was never seen wait for it, each for its own time. A
// row has the earliest of these times. From then until the last of them, the
// dependents themselves are read to find out which are due.

// dueStep is to what times are rounded up, so that rows that become due in quick
// succession are evaluated together.
const dueStep = 100 * time.Millisecond

// dueNow reports whether dependents of u are due, and adds the row for the time at
// which more are.
func (r *round) dueNow(snap *state.Snapshot, u uid.UID, due lifecycle.Due) bool {
	now := r.p.now()
	if due.First > now {
		r.p.addAt(u, dependents, due.First)
		return false
	}
	if due.Imported { // an import session may delay some, and ends without a commit if nothing more is imported
		r.p.addAt(u, dependents, r.sessionEnd(snap, now))
	}
	return true
}

// begun returns what is pending because of u without the work of orphan and
// foregroundDeletion, if an import session delays it. Then it adds the row for the
// end of the session.
func (p *Propagator) begun(u uid.UID, pending lifecycle.Owed, due lifecycle.Due) lifecycle.Owed {
	if due.Begins > p.now() {
		p.addAt(u, dependents, due.Begins)
		pending.Orphan, pending.Finish, pending.Examine = false, "", 0
	}
	return pending
}

// sessionEnd is when the first of the open import sessions ends if nothing more is
// imported; Never if none is open.
func (r *round) sessionEnd(snap *state.Snapshot, now lifecycle.Time) lifecycle.Time {
	if r.expires <= now {
		r.expires = snap.SessionEnd(now)
	}
	return r.expires
}

// ripe returns those of the dependents that need not wait for u any longer, and adds
// the row for the time at which the next need not.
func (p *Propagator) ripe(snap *state.Snapshot, u uid.UID, list []uid.UID) []uid.UID {
	now := p.now()
	next := lifecycle.Never
	snap.Prefetch(list)
	list = slices.DeleteFunc(list, func(d uid.UID) bool {
		n := snap.Node(d)
		if n == nil {
			return true
		}
		waits := true
		for i := range n.Owners {
			if n.Owners[i].UID != u {
				continue
			}
			c := lifecycle.Classify(snap, n, &n.Owners[i], now)
			waits = waits && c.Class == lifecycle.Unknown
			if c.Until != 0 {
				next = min(next, c.Until)
			}
		}
		return waits
	})
	p.addAt(u, dependents, next)
	return list
}
