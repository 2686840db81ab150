// Package resolve reads, at one revision, what is needed to evaluate objects: their traits
// and the classes of their owners. It also follows a deletion down to further dependents,
// so that a deep tree does not need a request for each level.
package resolve

import (
	"math"

	"github.com/coppice-gc/coppice/internal/codec/resolution"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Resolve resolves objects as of a snapshot, at the time now.
//
// It also resolves at most closure dependents that have to be collected once the objects
// before them are removed. It follows objects that their collection removes at once. The
// classes of these dependents assume that removal; the assumption is true for the writer
// if it collects in the same order.
//
// warn is called for references that an operator should look at; it may be nil.
func Resolve(snap *state.Snapshot, uids []uid.UID, closure int, now lifecycle.Time, warn Warn) *coppicev1.ResolveReply {
	reply, _ := resolve(snap, uids, closure, now, warn, math.MaxInt)
	return reply
}

// Part is Resolve, but if objects have many owner references, it leaves out the last of uids, and returns
// how many. It resolves at least one.
func Part(snap *state.Snapshot, uids []uid.UID, closure int, now lifecycle.Time, warn Warn) (reply *coppicev1.ResolveReply, left int) {
	return resolve(snap, uids, closure, now, warn, maxWidth)
}

func resolve(
	snap *state.Snapshot, uids []uid.UID, closure int, now lifecycle.Time, warn Warn, most int,
) (reply *coppicev1.ResolveReply, left int) {
	r := resolver{
		warn:  warn,
		view:  assumption{Snapshot: snap, gone: map[uid.UID]*lifecycle.Node{}},
		now:   now,
		most:  most,
		reply: &coppicev1.ResolveReply{Revision: snap.Revision()},
		seen:  make(map[uid.UID]bool, len(uids)),
	}
	for _, u := range uids {
		r.seen[u] = true
	}
	resolved := 0
	eachAhead(snap, uids, func(u uid.UID) bool {
		if n, traits, decision := r.add(u); decision == lifecycle.CollectObject {
			r.assume(n, traits)
		}
		resolved++
		return r.width < r.most
	})
	for len(r.frontier) > 0 && closure > 0 && r.width < r.most {
		owner := r.frontier[0]
		r.frontier = r.frontier[1:]
		closure -= r.descend(owner, closure)
	}
	return r.reply, len(uids) - resolved
}

// Warn is called with an owner reference of an object, and with the reason of the warning
// that it deserves. r is nil for lifecycle.WarnProtected.
type Warn func(v lifecycle.View, n *lifecycle.Node, r *lifecycle.OwnerReference, c lifecycle.Classification, reason string)

// assumption is a snapshot without the objects that are assumed to be gone.
type assumption struct {
	*state.Snapshot
	gone map[uid.UID]*lifecycle.Node
}

var _ lifecycle.View = assumption{}

func (a assumption) Node(u uid.UID) *lifecycle.Node {
	if a.gone[u] != nil {
		return nil
	}
	return a.Snapshot.Node(u)
}

func (a assumption) Removed(u uid.UID, c lifecycle.Coordinates) (revision uint64, same bool) {
	if n := a.gone[u]; n != nil {
		return a.Revision() + 1, n.Coordinates() == c
	}
	return a.Snapshot.Removed(u, c)
}

type resolver struct {
	warn     Warn
	view     assumption
	now      lifecycle.Time
	reply    *coppicev1.ResolveReply
	frontier []*lifecycle.Node // assumed to be gone, with dependents that have not been resolved
	seen     map[uid.UID]bool
	classes  []lifecycle.Class
	width    int // of the wide objects; from most on, nothing more is resolved
	most     int
}

// maxWidth is the width of wide objects from which on Part resolves nothing more.
const maxWidth = 8000

// firstAhead is the number of objects that are read at first. If they are not wide, more are read at once.
const firstAhead = 16

// eachAhead calls visit for objects in order. Before, it reads the nodes and owners that their evaluation needs, many
// at a time, but not more than a bounded number of references. It ends when visit returns false.
func eachAhead(snap *state.Snapshot, uids []uid.UID, visit func(uid.UID) (more bool)) {
	for ahead := firstAhead; len(uids) > 0; {
		now := uids[:min(ahead, len(uids))]
		snap.Prefetch(now)
		n := lifecycle.Within(snap, now)
		wide := n < len(now)
		if wide {
			now, ahead = now[:n], 2*n
		} else {
			ahead *= 4
		}
		snap.PrefetchCounts(now)
		snap.PrefetchOwners(now)
		for _, u := range now {
			if !visit(u) {
				return
			}
		}
		if uids = uids[len(now):]; wide {
			snap.Forget()
		}
	}
}

// add appends an object to the reply and returns the decision on it.
func (r *resolver) add(u uid.UID) (*lifecycle.Node, lifecycle.Traits, lifecycle.Decision) {
	n := r.view.Node(u)
	if n == nil {
		resolution.Append(r.reply, u, 0, nil)
		return nil, 0, lifecycle.Keep
	}
	traits := r.evaluate(n)
	resolution.Append(r.reply, u, traits, r.classes)
	decision := lifecycle.Decide(traits, r.classes)
	if decision == lifecycle.KeepProtected && r.warn != nil {
		r.warn(r.view, n, nil, lifecycle.Classification{}, lifecycle.WarnProtected)
	}
	return n, traits, decision
}

func (r *resolver) evaluate(n *lifecycle.Node) lifecycle.Traits {
	if w := lifecycle.Width(n); w > lifecycle.Wide {
		r.width += w
	}
	r.classes = r.classes[:0]
	of := lifecycle.NewClassifier(r.view, n, r.now)
	for i := range n.Owners {
		c := of.Classify(&n.Owners[i])
		r.classes = append(r.classes, c.Class)
		if r.warn == nil {
			continue
		}
		if reason := c.Warning(r.view, n, &n.Owners[i]); reason != "" {
			r.warn(r.view, n, &n.Owners[i], c, reason)
		}
	}
	return lifecycle.TraitsOf(r.view, n)
}

// assume assumes that an object is gone if its collection removes it at once and it has
// dependents.
func (r *resolver) assume(n *lifecycle.Node, traits lifecycle.Traits) {
	if traits&lifecycle.GoesAtOnce != 0 && traits&lifecycle.HasDependents != 0 {
		r.view.gone[n.UID] = n
		r.frontier = append(r.frontier, n)
	}
}

// descend adds the dependents that are collected because owner is assumed to be gone, at
// most budget of them.
func (r *resolver) descend(owner *lifecycle.Node, budget int) (added int) {
	var found []uid.UID
	r.view.Dependents(owner.UID, r.view.ValidClaims(owner, true), state.Edge{}, func(_ state.Edge, d uid.UID) bool {
		if !r.seen[d] {
			found = append(found, d)
		}
		return len(found) < budget
	})
	eachAhead(r.view.Snapshot, found, func(u uid.UID) bool {
		n := r.view.Node(u)
		if n == nil {
			return true
		}
		// A dependent that another owner still keeps may be found again below that owner.
		traits := r.evaluate(n)
		if lifecycle.Decide(traits, r.classes) == lifecycle.CollectObject {
			r.seen[u] = true
			resolution.Append(r.reply, u, traits, r.classes)
			r.assume(n, traits)
			added++
		}
		return r.width < r.most
	})
	return added
}
