package plan

import (
	"context"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/cycles"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// run is a plan that is being computed.
type run struct {
	ctx      context.Context
	snap     *state.Snapshot
	tx       *state.Tx
	rules    *lifecycle.Context
	revision uint64
	max      int
	refusal  *lifecycle.Error

	planned map[uid.UID]*Object
	order   []*Object

	// queue has the uids that may have pending work.
	queue  []entry
	queued map[uid.UID]bool
	// containers has the namespaces and kinds that are being deleted and have lost an
	// object. They are processed when the queue is empty.
	containers []entry
	contained  map[uid.UID]bool
}

// entry is a uid that may have pending work, and the object of the plan that caused it.
type entry struct{ uid, because uid.UID }

func (r *run) enqueue(u, because uid.UID) {
	if !r.queued[u] {
		r.queued[u] = true
		r.queue = append(r.queue, entry{u, because})
	}
}

// plan adds an object to the plan, in its current state.
func (r *run) plan(n *lifecycle.Node, because uid.UID) *Object {
	o := r.planned[n.UID]
	if o == nil {
		o = &Object{Node: n, Resource: r.tx.Kinds().OfNode(n).Resource(), Because: because}
		r.planned[n.UID] = o
		r.order = append(r.order, o)
	}
	if len(r.order) > r.max && r.refusal == nil {
		r.refusal = tooLarge(r.max)
	}
	return o
}

// apply applies events that an object of the plan causes.
func (r *run) apply(events []lifecycle.Event, because uid.UID) {
	for i := range events {
		e := &events[i]
		n := r.tx.Node(e.UID)
		o := r.plan(n, because)
		if e.Type == lifecycle.OwnerReferencesRemoved {
			o.Lost = append(o.Lost, e.References...)
			o.orphaned = o.orphaned || e.Reason == coppicev1.Reason_REASON_OWNER_ORPHANS
		}
		r.revision++
		if _, err := r.tx.Apply(e, r.revision, nil); err != nil {
			r.refuse(&lifecycle.Error{Reason: lifecycle.ReasonInternalError, Message: "plan: " + err.Error()})
			return
		}
		after := r.tx.Node(e.UID)
		o.orphans = o.orphans || after != nil && after.Orphaning()
		if n.Waiting() && after != nil && !after.Waiting() {
			r.keepsAgain(after)
		}
		r.enqueue(e.UID, e.UID)
		if e.Type == lifecycle.ObjectDeleted {
			r.left(n)
		}
		for j := range n.Owners {
			// An owner that is being deleted may have waited for this.
			u := n.Owners[j].UID
			if owner := r.tx.Node(u); r.planned[u] != nil || owner != nil && owner.Terminating() {
				r.enqueue(u, e.UID)
			}
		}
	}
}

// keepsAgain strips the dependents of an object that keeps them because it does not wait for
// them any more: their dangling references stayed until now, because not all owners were
// known.
func (r *run) keepsAgain(n *lifecycle.Node) {
	r.eachDependent(n.UID, func(d *lifecycle.Node) {
		if lifecycle.Evaluate(r.tx, d, r.rules.Now).Decision == lifecycle.StripReferences {
			r.apply(lifecycle.Strip(r.rules, d), n.UID)
		}
	})
}

func (r *run) refuse(err *lifecycle.Error) {
	if r.refusal == nil {
		r.refusal = err
	}
}

// stopped reports whether the computation has failed or its context has ended.
func (r *run) stopped() bool {
	if r.ctx.Err() != nil {
		r.refuse(&lifecycle.Error{Reason: lifecycle.ReasonTimeout, Message: "the plan was not finished in time; plan the deletion of something further down"})
	}
	return r.refusal != nil
}

// left records that an object has left its namespace and its kind.
func (r *run) left(n *lifecycle.Node) {
	var of []uid.UID
	if namespaces := r.tx.Kinds().Of("", "Namespace"); namespaces != nil && n.Namespace != "" {
		of = append(of, r.tx.Lookup(namespaces, "", n.Namespace))
	}
	if kind := r.tx.Kinds().OfNode(n); kind != nil {
		of = append(of, kind.UID)
	}
	for _, u := range of {
		if c := r.tx.Node(u); c != nil && c.Draining() && !r.contained[u] {
			r.contained[u] = true
			r.containers = append(r.containers, entry{u, n.UID})
		}
	}
}

// settle does pending work until none is left.
func (r *run) settle() {
	for !r.stopped() {
		if len(r.queue) > 0 {
			next := r.queue[0]
			r.queue = r.queue[1:]
			delete(r.queued, next.uid)
			r.work(next)
			continue
		}
		for _, c := range r.containers {
			r.enqueue(c.uid, c.because)
		}
		r.containers = nil
		clear(r.contained)
		if len(r.queue) == 0 && !r.unblock() {
			return
		}
	}
}

// unblock breaks cycles of objects that wait for each other (A14). It reports whether
// there were any.
func (r *run) unblock() bool {
	before := r.revision
	uids := make([]uid.UID, len(r.order))
	for i, o := range r.order {
		uids[i] = o.Node.UID
	}
	for _, cycle := range cycles.NewWaiting(r.tx, uids).Cycles() {
		r.apply(cycles.Unblock(r.tx, cycle), cycle[0])
	}
	return r.revision > before
}

// work does the pending work of one uid.
func (r *run) work(next entry) {
	u, n := next.uid, r.tx.Node(next.uid)
	o := r.planned[u]
	because := next.because
	if o != nil {
		because = u
	}
	pending := lifecycle.PendingOf(r.tx, u, n)
	due := pending.Evaluate && pending.EvaluateAt <= r.rules.Now
	// The dependents that it waits for may be terminating already, so that no work is
	// pending for them.
	join := o != nil && !o.joined && n != nil && n.Waiting()
	if due || join {
		r.eachDependent(u, func(d *lifecycle.Node) {
			switch {
			case d.Terminating() && join && lifecycle.Blocks(d, n):
				r.plan(d, because)
				r.enqueue(d.UID, d.UID)
			case due:
				r.evaluate(d, because)
			}
		})
		if o != nil {
			o.joined = o.joined || join
		}
	}
	if pending.Orphan {
		r.eachDependent(u, func(d *lifecycle.Node) {
			r.apply(lifecycle.OrphanFrom(r.rules, r.tx.Node(u), d), because)
		})
	}
	if pending.Finish != "" {
		r.apply(lifecycle.Finish(r.rules, r.tx.Node(u), pending.Finish, nil), because)
	}
	if pending.Examine > 0 {
		r.examine(u, because)
	}
	if c := r.tx.Node(u); pending.Drain && c != nil {
		if o != nil && !o.drained {
			o.drained = true
			r.drain(c)
		}
		r.apply(lifecycle.Finish(r.rules, r.tx.Node(u), lifecycle.FinalizerContents, nil), because)
	}
}

// examine completes the foreground deletion of u if unknown owners keep all
// dependents that are left.
func (r *run) examine(u, because uid.UID) {
	n := r.tx.Node(u)
	if pending := lifecycle.PendingOf(r.tx, u, n).Examine; pending == 0 || pending > lifecycle.MaxExamined {
		return // the counters decide, or there are too many to examine
	}
	var kept []uid.UID
	delayed := false
	r.eachDependent(u, func(d *lifecycle.Node) {
		switch lifecycle.DelayOf(r.tx, d, n, r.rules.Now) {
		case lifecycle.Delays:
			delayed = true
		case lifecycle.KeptByUnknown:
			kept = append(kept, d.UID)
		case lifecycle.NoDelay:
		}
	})
	if !delayed {
		r.apply(lifecycle.Finish(r.rules, n, lifecycle.FinalizerForeground, kept), because)
	}
}

// drain deletes what is in a container.
func (r *run) drain(c *lifecycle.Node) {
	const atOnce = 1024
	for place := (state.Content{}); !r.stopped(); {
		var found []uid.UID
		r.snap.Contents(c, place, func(at state.Content, u uid.UID) bool {
			found, place = append(found, u), at
			return len(found) < atOnce
		})
		r.tx.Prefetch(found)
		for _, u := range found {
			n := r.tx.Node(u)
			switch {
			case n == nil: // it was removed before
			case n.Terminating():
				r.plan(n, c.UID)
				r.enqueue(u, u)
			default:
				r.apply(lifecycle.Drain(r.rules, c, n), c.UID)
			}
		}
		if len(found) < atOnce {
			return
		}
	}
}

// evaluate does what the collector does with a dependent.
func (r *run) evaluate(d *lifecycle.Node, because uid.UID) {
	switch lifecycle.Evaluate(r.tx, d, r.rules.Now).Decision {
	case lifecycle.CollectObject, lifecycle.CollectForeground:
		r.apply(lifecycle.Collect(r.rules, d), because)
	case lifecycle.StripReferences:
		r.apply(lifecycle.Strip(r.rules, d), because)
	case lifecycle.Wait:
		r.plan(d, because)
	}
}

// eachDependent calls visit for the objects that still have a reference to u. A plan never
// adds references, so the snapshot has all of them.
func (r *run) eachDependent(u uid.UID, visit func(*lifecycle.Node)) {
	const atOnce = 1024
	for place := (state.Edge{}); ; {
		var found []uid.UID
		r.snap.Dependents(u, state.ClaimFilter{}, place, func(e state.Edge, d uid.UID) bool {
			found, place = append(found, d), e
			return len(found) < atOnce
		})
		r.tx.Prefetch(found)
		for _, f := range found {
			d := r.tx.Node(f)
			if d != nil && slices.ContainsFunc(d.Owners, func(ref lifecycle.OwnerReference) bool { return ref.UID == u }) {
				visit(d)
			}
		}
		if len(found) < atOnce || r.stopped() {
			return
		}
	}
}
