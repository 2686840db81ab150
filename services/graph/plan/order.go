package plan

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// The outcome of an object with several owners can depend on the order of work if the
// deletion changes more than one of them (docs/semantics.md, R1). Either one owner orphans
// the object and another is removed. Or one owner waits, and the object is stripped or
// collected depending on whether another owner has been removed by then; this matters for
// an object with an orphan finalizer of its own, and for one that an unknown owner keeps.
// The outcome of the dependents of such an object depends on the order too. An object that
// is blocked blocks those owners whose references were not stripped from it before it was
// marked.

// markOrder marks the objects whose outcome can depend on the order of work.
func (r *run) markOrder() {
	below := map[uid.UID][]*Object{}
	var queue []*Object
	mark := func(o *Object) {
		if !o.DependsOnOrder {
			o.DependsOnOrder = true
			queue = append(queue, o)
		}
	}
	for _, o := range r.order {
		for i := range o.Node.Owners {
			below[o.Node.Owners[i].UID] = append(below[o.Node.Owners[i].UID], o)
		}
	}
	waitFor := func(o *Object) { // marks the owners that wait for o
		for i := range o.Node.Owners {
			ref := &o.Node.Owners[i]
			if owner := r.planned[ref.UID]; owner != nil && ref.Blocking == lifecycle.True && lifecycle.Fits(o.Node, ref, owner.Node) {
				mark(owner)
			}
		}
	}
	for _, o := range r.order {
		changing, ambiguous := r.changing(o)
		switch {
		case r.policyDepends(o):
			mark(o)
		case changing < 2:
		case ambiguous:
			mark(o)
		case o.Outcome == Blocked:
			waitFor(o) // whose references may have been stripped before it was marked
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, d := range below[queue[0].Node.UID] {
			mark(d)
		}
		waitFor(queue[0])
	}
}

// policyDepends reports whether the policy with which an object is deleted can depend on
// the order: it is in the foreground only if a user of it was not removed before.
func (r *run) policyDepends(o *Object) bool {
	return !o.Requested && !o.Node.Terminating() && r.snap.Users(o.Node).All > 0 && lifecycle.Dependents(r.snap, o.Node).All > 0
}

// changing returns how many owners of an object change, and whether their order can matter
// for the object.
func (r *run) changing(o *Object) (owners int, ambiguous bool) {
	of := lifecycle.NewClassifier(r.snap, o.Node, r.rules.Now)
	for i := range o.Node.Owners {
		ref := &o.Node.Owners[i]
		owner := r.planned[ref.UID]
		if owner == nil || !lifecycle.Fits(o.Node, ref, owner.Node) {
			ambiguous = ambiguous || of.Classify(ref).Class == lifecycle.Unknown
			continue
		}
		if after := r.tx.Node(ref.UID); after == nil || after.Terminating() {
			owners++
			ambiguous = ambiguous || owner.orphans
		}
	}
	own := o.Node.HasFinalizer(lifecycle.FinalizerOrphan) && r.rules.Settings().Propagation != lifecycle.Cascade &&
		lifecycle.Dependents(r.snap, o.Node).All > 0
	return owners, ambiguous || own || o.orphaned
}
