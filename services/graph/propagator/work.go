package propagator

import (
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// work is what is pending because of one uid, in a snapshot.
type work struct {
	lifecycle.Pending
	due      lifecycle.Due
	uid      uid.UID
	node     *lifecycle.Node // nil if the object is absent
	revision uint64          // of the row
	at       lifecycle.Time  // the time for which due was computed
}

// workOf returns what is pending because of u at a time. The row does not decide what is due:
// kinds may have been registered since it was written.
func workOf(snap *state.Snapshot, u uid.UID, row state.WorkRow, at lifecycle.Time) work {
	n := snap.Node(u)
	pending, due := lifecycle.PendingWhen(snap, u, n)
	return work{Pending: pending, due: due, uid: u, node: n, revision: row.Revision, at: at}
}

// filter selects the dependents that the work is about: all dependents of an absent owner,
// those with valid references to an owner that orphans them, or all if some name it in a group
// from which it has moved, and those with invalid
// references to an owner that neither orphans them nor waits. For an owner that waits it
// selects those that the collector may have to act on: dependents with valid references,
// with invalid ones, or both.
func (w *work) filter(snap *state.Snapshot) state.ClaimFilter {
	switch n := w.node; {
	case n == nil:
		return state.ClaimFilter{}
	case w.Orphan:
		if _, moved := lifecycle.Orphanable(snap, n); moved {
			return state.ClaimFilter{}
		}
		return snap.ValidClaims(n, true)
	case !n.Waiting():
		return snap.ValidClaims(n, false)
	}
	all, valid := snap.Count(w.uid, lifecycle.Claims{}), lifecycle.Dependents(snap, w.node)
	switch {
	case valid.Actionable() == 0:
		return snap.ValidClaims(w.node, false)
	case all.Actionable() > valid.Actionable():
		return state.ClaimFilter{}
	}
	return snap.ValidClaims(w.node, true)
}

// Dependents of an owner that was never seen wait for it, each for its own time. A
// row has the earliest of these times. From then until the last of them, the
// dependents themselves are read to find out which are due.

// dueStep is to what times are rounded up, so that rows that become due in quick
// succession are read together.
const dueStep = 100 * time.Millisecond

// someNotDue reports whether some of the dependents to evaluate are not due.
func (w *work) someNotDue() bool { return w.Evaluate && w.due.Last > w.at }

// delay drops the work of orphan, foregroundDeletion and in-use if an import session delays it,
// and adds the row for the end of the session.
func (p *Propagator) delay(w *work) {
	if w.due.Begins > w.at {
		p.addAt(w.uid, rowChanged|dependentsChanged, w.due.Begins)
		w.Orphan, w.Finish, w.Examine = false, "", 0
	}
}

// dueNow reports whether dependents are due, and adds the row for the time at which
// more are.
func (r *round) dueNow(snap *state.Snapshot, w *work) bool {
	if w.due.First > w.at {
		r.p.addAt(w.uid, rowChanged|dependentsChanged, w.due.First)
		return false
	}
	if w.due.Imported { // an import session may delay some, and ends without a commit if nothing more is imported
		r.p.addAt(w.uid, rowChanged|dependentsChanged, r.sessionEnd(snap, w.at))
	}
	return true
}

// sessionEnd is when the first of the open import sessions ends if nothing more is
// imported; Never if none is open.
func (r *round) sessionEnd(snap *state.Snapshot, now lifecycle.Time) lifecycle.Time {
	if r.expires <= now {
		r.expires = snap.SessionEnd(now)
	}
	return r.expires
}

// dueDependents returns those of the dependents that need not wait for u any longer, and adds
// the row for the time at which the next need not.
func (p *Propagator) dueDependents(snap *state.Snapshot, u uid.UID, list []uid.UID, now lifecycle.Time) []uid.UID {
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
	p.addAt(u, rowChanged|dependentsChanged, next)
	return list
}
