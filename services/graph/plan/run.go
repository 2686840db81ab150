package plan

import (
	"context"
	"slices"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/planname"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/cycles"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// run is a plan that is being computed.
type run struct {
	ctx context.Context
	// namespaces are those of the request, nil for all: a plan names no object of another.
	namespaces []string
	sees       func(*lifecycle.Kind, *lifecycle.Node) bool // nil for all
	snap       *state.Snapshot
	tx         *state.Tx
	rules      *lifecycle.Context
	revision   uint64
	max        int
	refusal    *lifecycle.Error
	// release is the kind whose brake is to be released, nil if a deletion is planned. For a
	// release, let has the objects whose deletion brakes count: see Pending. For a deletion,
	// counted has their number by kind, without those that a release lets through already.
	release *lifecycle.Kind
	let     []uid.UID
	counted map[*lifecycle.Kind]uint64
	unnamed int // users that were looked at and that the plan may not name

	planned map[uid.UID]*Object
	order   []*Object

	// queue has the uids that may have pending work.
	queue  []entry
	queued map[uid.UID]bool
	// containers has the namespaces and kinds that are being deleted and have lost an
	// object. They are processed when the queue is empty.
	containers []entry
	contained  map[uid.UID]bool

	cycles []string // in which a use was released
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

// add adds events that an object of the plan causes.
func (r *run) add(events []lifecycle.Event, because uid.UID) {
	for i := range events {
		e := &events[i]
		n := r.tx.Node(e.UID)
		o := r.plan(n, because)
		if e.Type == lifecycle.OwnerReferencesRemoved {
			o.Lost = append(o.Lost, e.References...)
			o.orphaned = o.orphaned || e.Reason == coppicev1.Reason_REASON_OWNER_ORPHANS
		}
		if lifecycle.Counted(e) {
			r.count(n)
		}
		r.revision++
		if _, err := r.tx.Add(e, r.revision, nil); err != nil {
			r.refuse(&lifecycle.Error{Reason: api.ErrInternalError, Message: "plan: " + err.Error()})
			return
		}
		after := r.tx.Node(e.UID)
		if e.Type == lifecycle.DeletionMarked && o.mark == (planname.Mark{}) {
			o.mark = planname.MarkOf(n, after)
		}
		o.orphans = o.orphans || after != nil && after.Orphaning()
		o.ForUsers = o.ForUsers || e.Type == lifecycle.DeletionMarked && after.InUse() && after.Waiting() && !n.Terminating() &&
			!n.HasFinalizer(lifecycle.FinalizerForeground) && e.Reason != coppicev1.Reason_REASON_OWNER_WAITING
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
		for j := range n.Uses {
			if u := n.Uses[j].UID; u != "" && (r.planned[u] != nil || r.tx.Node(u) != nil && r.tx.Node(u).Terminating()) {
				r.enqueue(u, e.UID)
			}
		}
	}
}

// visible reports whether the plan may name an object. Only uses lead from one namespace to
// another.
func (r *run) visible(n *lifecycle.Node) bool {
	return (r.namespaces == nil || n.Namespace == "" || slices.Contains(r.namespaces, n.Namespace)) &&
		(r.sees == nil || r.sees(r.tx.Kinds().OfNode(n), n))
}

// maxUnnamed is the maximum number of users that a plan may not name and looks at, for all its
// objects together, to find others that it may name.
const maxUnnamed = 1000

// users returns the number of objects that use n, and the name of one of them; no name if the
// plan may name none, or has looked at too many.
func (r *run) users(n *lifecycle.Node) (name string, count uint64) {
	r.snap.EachUser(n, func(u uid.UID) bool {
		user := r.tx.Node(u)
		if user == nil || !lifecycle.Uses(user, n) {
			return true
		}
		if !r.visible(user) {
			r.unnamed++
			return r.unnamed < maxUnnamed
		}
		name = lifecycle.UserName(r.tx, n, user)
		return false
	})
	return name, r.tx.Users(n).All
}

// joinUsers adds the users of an object that are being deleted already: the object waits for
// them, and no work is pending for them.
func (r *run) joinUsers(n *lifecycle.Node, because uid.UID) {
	r.snap.EachUser(n, func(u uid.UID) bool {
		if user := r.tx.Node(u); user != nil && user.Terminating() {
			r.plan(user, because)
			r.enqueue(u, u)
		}
		return !r.stopped()
	})
}

// count records that the collector deletes n, which a brake counts.
func (r *run) count(n *lifecycle.Node) {
	if r.release != nil {
		r.let = append(r.let, n.UID)
		return
	}
	if r.snap.Released(n.UID) {
		return
	}
	if r.counted == nil {
		r.counted = map[*lifecycle.Kind]uint64{}
	}
	r.counted[r.tx.Kinds().OfNode(n)]++
}

// keepsAgain strips the dependents of an object that has stopped waiting for them and keeps
// them again. Until now only unknown owners kept these dependents, so that their dangling
// references stayed.
func (r *run) keepsAgain(n *lifecycle.Node) {
	r.eachDependent(n.UID, func(d *lifecycle.Node) {
		if lifecycle.Evaluate(r.tx, d, r.rules.Now).Decision == lifecycle.StripReferences {
			r.add(lifecycle.Strip(r.rules, d), n.UID)
		}
	})
}

func (r *run) refuse(err *lifecycle.Error) {
	if r.refusal == nil {
		r.refusal = err
	}
}

// elsewhere replaces a refusal about an object that the plan may not name.
func elsewhere(err *lifecycle.Error) *lifecycle.Error {
	return &lifecycle.Error{Reason: err.Reason, Message: "the plan cannot be computed, because of an object that the deletion reaches and that is in another namespace, or that this user may not get; " +
		"ask an operator, who may see it"}
}

// unreadable refuses the plan because a body cannot be decoded.
func (r *run) unreadable(of *state.UnreadableError) *lifecycle.Error {
	err := of.Refusal(r.snap.Kinds())
	if of.Node != nil && !r.visible(of.Node) {
		return elsewhere(err)
	}
	return err
}

// stopped reports whether the computation has failed or its context has ended.
func (r *run) stopped() bool {
	if r.ctx.Err() != nil {
		r.refuse(&lifecycle.Error{Reason: api.ErrTimeout, Message: "the plan was not finished in time; plan the deletion of dependents first"})
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
		if path := cycles.UsePath(r.tx, cycle); path != "" {
			if slices.ContainsFunc(cycle, func(u uid.UID) bool { return !r.visible(r.tx.Node(u)) }) {
				path = cycles.HiddenPath
			}
			r.cycles = append(r.cycles, path)
		}
		r.add(cycles.Unblock(r.tx, cycle), cycle[0])
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
	due := pending.Evaluate && pending.EvaluateAt <= r.rules.Now || pending.Protected
	// The dependents that it waits for may be terminating already, so that no work is
	// pending for them.
	join := o != nil && !o.joined && n != nil && n.Waiting()
	if o != nil && !o.joinedUsers && n != nil && n.InUse() {
		o.joinedUsers = true
		r.joinUsers(n, because)
	}
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
			r.add(lifecycle.OrphanFrom(r.rules, r.tx.Node(u), d), because)
		})
	}
	if pending.Finish != "" {
		r.add(lifecycle.Finish(r.rules, r.tx.Node(u), pending.Finish, nil), because)
	}
	if pending.Examine > 0 {
		r.examine(u, because)
	}
	if c := r.tx.Node(u); pending.Drain && c != nil {
		if o != nil && !o.drained {
			until := lifecycle.PodsUntil(r.tx, c)
			if o.podsLate {
				until = 0
			}
			o.drained = max(until, lifecycle.BeginsAfter(r.tx, c)) <= r.rules.Now // or again, when no Pod is left
			r.drain(c, until)
		}
		r.add(lifecycle.Finish(r.rules, r.tx.Node(u), lifecycle.FinalizerContents, nil), because)
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
		r.add(lifecycle.Finish(r.rules, n, lifecycle.FinalizerForeground, kept), because)
	}
}

// drain deletes what is in a container, its Pods first until a time.
func (r *run) drain(c *lifecycle.Node, pods lifecycle.Time) {
	was := r.snap.Node(c.UID)
	r.eachContent(c, func(n *lifecycle.Node) {
		switch {
		case n.Terminating():
			r.plan(n, c.UID)
			r.enqueue(n.UID, n.UID)
		case r.release != nil && was != nil && was.Draining() && r.tx.Kinds().OfNode(n) != r.release && lifecycle.Braked(r.snap, n):
			// Another brake paused this before.
		case n.Protected():
			r.plan(n, c.UID)
		default:
			r.add(lifecycle.DrainAfter(r.rules, c, n, pods), c.UID)
		}
	})
}

// atOnce is the maximum number of objects that are read from an index at a time.
const atOnce = 1024

// eachContent calls visit for the objects in a container that are left.
func (r *run) eachContent(c *lifecycle.Node, visit func(*lifecycle.Node)) {
	for place := (state.Content{}); !r.stopped(); {
		var found []uid.UID
		r.snap.Contents(c, place, func(at state.Content, u uid.UID) bool {
			found, place = append(found, u), at
			return len(found) < atOnce
		})
		r.tx.Prefetch(found)
		for _, u := range found {
			if n := r.tx.Node(u); n != nil {
				visit(n)
			}
		}
		if len(found) < atOnce {
			return
		}
	}
}

// evaluate does what the collector does with a dependent.
func (r *run) evaluate(d *lifecycle.Node, because uid.UID) {
	if r.stays(d) {
		return
	}
	switch lifecycle.Evaluate(r.tx, d, r.rules.Now).Decision {
	case lifecycle.CollectObject, lifecycle.CollectForeground:
		r.add(lifecycle.Collect(r.rules, d), because)
	case lifecycle.StripReferences:
		r.add(lifecycle.Strip(r.rules, d), because)
	case lifecycle.Wait, lifecycle.KeepProtected:
		r.plan(d, because)
	}
}

// eachDependent calls visit for the objects that still have a reference to u. A plan never
// adds references, so the snapshot has all of them.
func (r *run) eachDependent(u uid.UID, visit func(*lifecycle.Node)) {
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
