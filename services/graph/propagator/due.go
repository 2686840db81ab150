package propagator

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Dependents of an owner that was never seen wait for it, each for its own
// time. A row has the first of these times; then, until the last is over, it is
// told by the dependents themselves which of them are handed out.

// judgeNow reports whether dependents of u are to be judged now, and remembers
// when to ask again where time will tell more.
func (r *round) judgeNow(snap *state.Snapshot, u uid.UID, due lifecycle.Due) bool {
	now := lifecycle.TimeOf(r.p.c.Now())
	if due.First > now {
		r.p.dueAt(u, due.First)
		return false
	}
	if due.Imported {
		// An import session that holds some of them may end without a word.
		r.p.dueAt(u, r.sessionEnd(snap, now))
	}
	return true
}

// begun is what is owed because of u without what orphan and foregroundDeletion
// owe once an import session has ended: it remembers when to ask for that again.
func (p *Propagator) begun(u uid.UID, owed lifecycle.Owed, due lifecycle.Due) lifecycle.Owed {
	if due.Begins > lifecycle.TimeOf(p.c.Now()) {
		p.dueAt(u, due.Begins)
		owed.Orphan, owed.Finish, owed.Examine = false, "", 0
	}
	return owed
}

// sessionEnd is when an open import session ends if nothing more comes, the
// first of them; Never if none is open.
func (r *round) sessionEnd(snap *state.Snapshot, now lifecycle.Time) lifecycle.Time {
	if r.expires <= now {
		r.expires = snap.SessionEnd(now)
	}
	return r.expires
}

// ripe returns those of the dependents that have not to wait for u any longer,
// and remembers when the next has not.
func (p *Propagator) ripe(snap *state.Snapshot, u uid.UID, dependents []uid.UID) []uid.UID {
	now := lifecycle.TimeOf(p.c.Now())
	next := lifecycle.Never
	snap.Prefetch(dependents)
	dependents = slices.DeleteFunc(dependents, func(d uid.UID) bool {
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
	p.dueAt(u, next)
	return dependents
}
