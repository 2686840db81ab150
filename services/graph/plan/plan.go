package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Deletion is the request that is planned. All its objects are deleted in one commit.
type Deletion struct {
	Resource, Namespace string
	*coppicev1.DeleteRequest
}

// Plan is what a deletion would do.
type Plan struct {
	// Revision is the revision of the state for which the plan was computed.
	Revision uint64
	// Objects are in the order of resource, namespace and name.
	Objects []*Object
}

// Outcome is the outcome of an object: whether it is removed, stays or waits.
type Outcome = coppicev1.PlanOutcome

// The outcomes.
const (
	Removed      = coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED
	RemovedLater = coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED_LATER
	Blocked      = coppicev1.PlanOutcome_PLAN_OUTCOME_BLOCKED
	Orphaned     = coppicev1.PlanOutcome_PLAN_OUTCOME_ORPHANED
	Stripped     = coppicev1.PlanOutcome_PLAN_OUTCOME_STRIPPED
	Kept         = coppicev1.PlanOutcome_PLAN_OUTCOME_KEPT
)

// Object is an object of a plan.
type Object struct {
	// Node is the object before the deletion.
	Node     *lifecycle.Node
	Resource string
	Outcome  Outcome
	// Requested: the deletion names the object. Other objects are in the plan because of
	// the object with the uid Because.
	Requested bool
	Because   uid.UID
	// Lost are the references that the object loses, if it stays.
	Lost []lifecycle.OwnerReference
	// Blockers are what must happen before the object is removed, or why it stays.
	Blockers []Blocker
	// DependsOnOrder: the outcome is that of one order of work, and can be another.
	DependsOnOrder bool

	orphaned bool // one of Lost was removed by the orphan policy
	orphans  bool // it was to orphan its dependents
	joined   bool // the terminating dependents for which it waits were added
	drained  bool // its contents were deleted
}

// Blocker is what must happen before an object is removed, or why it stays.
type Blocker struct {
	Type coppicev1.PlanBlocker_Type
	Name string
	// Owner is the uid of an unknown owner. Until is when it counts as absent.
	Owner uid.UID
	Until lifecycle.Time
	Count uint64 // of dependents
}

// Compute computes the plan of a deletion at a snapshot and a time. It returns the error
// with which the DELETE would be refused, and an error if the plan has more than maxObjects
// objects.
func Compute(ctx context.Context, snap *state.Snapshot, d Deletion, now lifecycle.Time, maxObjects int) (*Plan, *lifecycle.Error) {
	kind := snap.Kinds().Resource(d.Resource)
	if kind == nil {
		return nil, lifecycle.ErrUnknownKind(d.Resource)
	}
	tx := snap.Begin()
	r := &run{
		ctx: ctx, snap: snap, tx: tx, max: maxObjects, revision: snap.Revision(),
		rules:   &lifecycle.Context{View: tx, Now: now},
		planned: map[uid.UID]*Object{}, queued: map[uid.UID]bool{}, contained: map[uid.UID]bool{},
	}
	for i, name := range d.GetNames() {
		if err := r.delete(lifecycle.Key{Kind: kind, Namespace: d.Namespace, Name: name}, d.DeleteRequest); err != nil {
			err.Index = i
			return nil, err
		}
	}
	r.settle()
	for _, o := range r.order {
		if n := r.tx.Node(o.Node.UID); n == nil {
			o.Outcome = Removed
		} else {
			o.waits(tx, n)
		}
	}
	for r.answer() {
		r.settle()
	}
	if r.refusal != nil {
		return nil, r.refusal
	}
	for _, o := range r.order {
		r.conclude(o)
	}
	r.markOrder()
	if err := tx.Err(); err != nil {
		return nil, &lifecycle.Error{Reason: lifecycle.ReasonInternalError, Message: "plan: " + err.Error()}
	}
	slices.SortFunc(r.order, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Node.Namespace, b.Node.Namespace), cmp.Compare(a.Node.Name, b.Node.Name))
	})
	return &Plan{Revision: snap.Revision(), Objects: r.order}, nil
}

// delete applies the DELETE of one object.
func (r *run) delete(at lifecycle.Key, d *coppicev1.DeleteRequest) *lifecycle.Error {
	out, err := lifecycle.Delete(r.rules, at, d.GetVersion(), d.GetOptions())
	if err != nil {
		return err
	}
	n := out.Object.Node
	o := r.plan(n, n.UID)
	o.Requested, o.Because = true, ""
	r.apply(out.Events, n.UID)
	r.enqueue(n.UID, n.UID) // also if it is terminating already
	return nil
}

// conclude sets the outcome of an object.
func (r *run) conclude(o *Object) {
	n := r.tx.Node(o.Node.UID)
	switch {
	case n == nil && o.Outcome == Removed:
	case n == nil:
		o.Outcome = RemovedLater
	case n.Terminating():
		o.Outcome = Blocked
		o.waits(r.tx, n)
	case o.orphaned:
		o.Outcome = Orphaned
	case len(o.Lost) > 0:
		o.Outcome = Stripped
	default:
		o.Outcome = Kept
		for i := range n.Owners {
			ref := &n.Owners[i]
			if c := lifecycle.Classify(r.tx, n, ref, r.rules.Now); c.Class == lifecycle.Unknown {
				o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_OWNER, Name: ref.Kind + "/" + ref.Name, Owner: ref.UID, Until: c.Until})
			}
		}
	}
	if n == nil {
		o.Lost = nil // they were removed with the object
	}
}

// block adds a blocker. It replaces an earlier entry for the same blocker.
func (o *Object) block(h Blocker) {
	i := slices.IndexFunc(o.Blockers, func(was Blocker) bool {
		return was.Type == h.Type && was.Name == h.Name && was.Owner == h.Owner
	})
	if i < 0 {
		o.Blockers = append(o.Blockers, h)
		return
	}
	o.Blockers[i] = h
}

// waits records the dependents and the contents for which a terminating object waits.
func (o *Object) waits(v lifecycle.View, n *lifecycle.Node) {
	var count uint64
	switch of := lifecycle.Dependents(v, n); {
	case n.Orphaning():
		count = of.All
	case n.Waiting():
		count = of.Blocking
		if examine := lifecycle.PendingOf(v, n.UID, n).Examine; examine > lifecycle.MaxExamined {
			o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_UNEXAMINED, Count: examine})
		}
	}
	if count > 0 {
		o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_DEPENDENTS, Count: count})
	}
	if n.Draining() {
		o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_CONTENTS})
	}
}

func tooLarge(max int) *lifecycle.Error {
	return &lifecycle.Error{
		Reason:  lifecycle.ReasonRequestEntityTooLarge,
		Message: fmt.Sprintf("the plan has more than %d objects; plan the deletion of something further down", max),
	}
}
