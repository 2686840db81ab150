package plan

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// The order of work can show in what becomes of an object that has several owners,
// of which more than one changes by the deletion (docs/semantics.md, R1): with the
// same deletion one owner orphans it and another is removed; or one waits, and the
// object is stripped or collected according to whether another is removed by then,
// which makes a difference to an object with an orphan finalizer of its own, and to
// one that an unknown owner keeps. What depends on such an object depends on the
// order as well. And an object that stays, held, holds those owners of which it was
// not stripped before it was marked.

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
		case changing < 2:
		case ambiguous:
			mark(o)
		case o.Outcome == Blocked:
			waitFor(o) // of which it may have been stripped before it was marked
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, d := range below[queue[0].Node.UID] {
			mark(d)
		}
		waitFor(queue[0])
	}
}

// changing is how many owners of an object change, and whether it can make a
// difference to the object which of them is first, if they are several.
func (r *run) changing(o *Object) (owners int, ambiguous bool) {
	for i := range o.Node.Owners {
		ref := &o.Node.Owners[i]
		owner := r.planned[ref.UID]
		if owner == nil || !lifecycle.Fits(o.Node, ref, owner.Node) {
			ambiguous = ambiguous || lifecycle.Classify(r.snap, o.Node, ref, r.rules.Now).Class == lifecycle.Unknown
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
