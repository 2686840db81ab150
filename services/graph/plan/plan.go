package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/planname"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Deletion is the request that is planned. All its objects are deleted in one commit.
type Deletion struct {
	Resource, Namespace string
	*coppicev1.DeleteRequest
	// Unprotect: what is planned is the removal of the objects' protection, and what the
	// collector does then. Of the request only the names and preconditions count.
	Unprotect bool
	// Also are deletions of objects of other resources or namespaces in the same commit.
	Also []Deletion
	// Sees reports whether the plan may name an object; nil for all that are in the namespaces of the request.
	Sees func(*lifecycle.Kind, *lifecycle.Node) bool
}

// options returns the options that the name of the plan says.
func (d Deletion) options() planname.Options {
	if d.Unprotect {
		return planname.OfUnprotect(d.DeleteRequest)
	}
	return planname.Of(d.requests()...)
}

// requests returns the requests of All.
func (d Deletion) requests() (list []*coppicev1.DeleteRequest) {
	for _, part := range d.All() {
		list = append(list, part.DeleteRequest)
	}
	return list
}

// Named returns the name of the plan that a request carries out. It returns an error unless the
// request has the options that were planned.
func (d Deletion) Named(plan string) (planname.Name, *lifecycle.Error) {
	return planname.Check(plan, d.requests()...)
}

// All returns the deletion and the deletions in its Also, but not those in theirs.
func (d Deletion) All() []Deletion { return append([]Deletion{d}, d.Also...) }

// namespaces returns those whose objects the plan may name, nil for all.
func (d Deletion) namespaces() (list []string) {
	for _, part := range d.All() {
		if part.Namespace == "" {
			return nil
		}
		list = append(list, part.Namespace)
	}
	return list
}

// Plan is what a deletion would do.
type Plan struct {
	// Revision is the revision of the state for which the plan was computed.
	Revision uint64
	// Objects are in the order of resource, namespace and name.
	Objects []*Object
	// options are those of the request.
	options planname.Options
	// kinds are the revisions of the objects that registered the kinds of the plan's objects. A kind
	// can decide how its objects are deleted.
	kinds map[*lifecycle.Kind]uint64
	// elsewhere are the objects that the plan does not name, because they are in other
	// namespaces than the request, or the actor may not get them. The hash depends on them.
	elsewhere []*Object
	// Cycles are the cycles of objects that wait for each other in which a use is released.
	Cycles []string
	// Brakes are the brakes that the deletion would trip, or that are tripped.
	Brakes []*coppicev1.PlanBrake
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
	Protected    = coppicev1.PlanOutcome_PLAN_OUTCOME_PROTECTED
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
	// asked is how the deletion asks for it, if it names the object. mark is how the object is
	// marked first.
	asked string
	mark  planname.Mark
	// Lost are the references that the object loses, if it stays.
	Lost []lifecycle.OwnerReference
	// Blockers are what must happen before the object is removed, or why it stays.
	Blockers []Blocker
	// DependsOnOrder: the outcome is that of one order of work, and can be another.
	DependsOnOrder bool
	// ForUsers: the object is deleted in the foreground instead of in the background,
	// because others use it.
	ForUsers bool
	// ExpiresAt is when the object expires if it stays, zero for never. Notice is the one that
	// an expiry policy has given and that ends first, and NoticePolicy names the policy.
	ExpiresAt    lifecycle.Time
	Notice       lifecycle.Notice
	NoticePolicy string

	orphaned bool // one of Lost was removed by the orphan policy
	orphans  bool // it was to orphan its dependents
	joined   bool // the terminating dependents for which it waits were added

	joinedUsers bool // the terminating users for which it waits were added
	drained     bool // its contents were deleted
	podsLate    bool // its contents do not wait for Pods any more
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
	all := d.All()
	for _, d := range all {
		if snap.Kinds().Resource(d.Resource) == nil {
			return nil, lifecycle.ErrUnknownKind(d.Resource)
		}
	}
	tx := snap.Begin()
	tx.Unbrake() // brakes delay what the plan says, and change nothing else
	r := &run{
		ctx: ctx, namespaces: d.namespaces(), sees: d.Sees, snap: snap, tx: tx, max: maxObjects, revision: snap.Revision(),
		rules:   &lifecycle.Context{View: tx, Now: now},
		planned: map[uid.UID]*Object{}, queued: map[uid.UID]bool{}, contained: map[uid.UID]bool{},
	}
	begin, index := r.delete, 0
	if d.Unprotect {
		begin = r.unprotect
	}
	for _, d := range all {
		kind := snap.Kinds().Resource(d.Resource)
		for _, name := range d.GetNames() {
			if err := begin(lifecycle.Key{Kind: kind, Namespace: d.Namespace, Name: name}, d.DeleteRequest); err != nil {
				err.Index = index
				return nil, err
			}
			index++
		}
	}
	r.settle()
	for _, o := range r.order {
		if r.stopped() {
			break
		}
		if n := r.tx.Node(o.Node.UID); n == nil {
			o.Outcome = Removed
		} else {
			o.waits(r, n)
		}
	}
	for r.answer() {
		r.settle()
	}
	if r.refusal != nil {
		return nil, r.refusal
	}
	for _, o := range r.order {
		if r.stopped() {
			return nil, r.refusal
		}
		r.conclude(o)
	}
	r.markOrder()
	if unreadable := tx.TakeUnreadable(); unreadable != nil {
		return nil, r.unreadable(unreadable)
	}
	if err := tx.Err(); err != nil {
		return nil, &lifecycle.Error{Reason: api.ErrInternalError, Message: "plan: " + err.Error()}
	}
	p := &Plan{Revision: snap.Revision(), Cycles: r.cycles, Brakes: r.brakes(), options: d.options(), kinds: map[*lifecycle.Kind]uint64{}}
	for _, o := range r.order {
		kind := snap.Kinds().OfNode(o.Node)
		if _, known := p.kinds[kind]; !known {
			p.kinds[kind] = 0 // a built-in kind does not change
			if n := snap.Node(kind.UID); n != nil {
				p.kinds[kind] = n.Revision
			}
		}
		if r.visible(o.Node) {
			p.Objects = append(p.Objects, o)
		} else {
			p.elsewhere = append(p.elsewhere, o)
		}
	}
	slices.SortFunc(p.Objects, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Node.Namespace, b.Node.Namespace), cmp.Compare(a.Node.Name, b.Node.Name))
	})
	return p, nil
}

// delete applies the DELETE of one object.
func (r *run) delete(at lifecycle.Key, d *coppicev1.DeleteRequest) *lifecycle.Error {
	out, err := lifecycle.Delete(r.rules, at, d.GetVersion(), d.GetOptions())
	if err != nil {
		return err
	}
	n := out.Object.Node
	o := r.plan(n, n.UID)
	o.Requested, o.Because, o.asked = true, "", planname.Text(d)
	r.add(out.Events, n.UID)
	o.ForUsers = o.ForUsers && d.GetOptions().GetPropagationPolicy() != lifecycle.Foreground
	r.enqueue(n.UID, n.UID) // also if it is terminating already
	return nil
}

// unprotect removes the protection of one object, so that the collector evaluates it.
func (r *run) unprotect(at lifecycle.Key, d *coppicev1.DeleteRequest) *lifecycle.Error {
	out, err := lifecycle.Unprotect(r.rules, at, d.GetOptions().GetPreconditions())
	if err != nil {
		return err
	}
	if unreadable := r.tx.TakeUnreadable(); unreadable != nil && !out.BodyOptional {
		return r.unreadable(unreadable)
	}
	n := out.Object.Node
	o := r.plan(n, n.UID)
	o.Requested, o.Because, o.asked = true, "", "unprotect "+planname.Text(d)
	r.add(out.Events, n.UID)
	if now := r.tx.Node(n.UID); !now.Protected() {
		r.evaluate(now, n.UID)
		for _, u := range lifecycle.Containers(r.tx, n) {
			if c, now := r.tx.Node(u), r.tx.Node(n.UID); c != nil && now != nil {
				r.add(lifecycle.Drain(r.rules, c, now), n.UID)
			}
		}
	}
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
		o.waits(r, n)
	case o.orphaned:
		o.Outcome = Orphaned
	case len(o.Lost) > 0:
		o.Outcome = Stripped
	case n.Protected():
		o.Outcome = Protected
		o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_PROTECTION, Name: lifecycle.ProtectedBy(r.tx, n)})
	default:
		o.Outcome = Kept
		of := lifecycle.NewClassifier(r.tx, n, r.rules.Now)
		for i := range n.Owners {
			ref := &n.Owners[i]
			if c := of.Classify(ref); c.Class == lifecycle.Unknown {
				o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_OWNER, Name: ownerName(r.tx.Kinds(), ref), Owner: ref.UID, Until: c.Until})
			}
		}
	}
	if n == nil {
		o.Lost = nil // they were removed with the object
	} else if !n.Terminating() && !n.Protected() { // B6.4
		o.expiry(r, n)
	}
}

// ownerName names an owner: "replicasets.apps/web". A kind that is not registered has its name in lower case in place
// of its plural.
func ownerName(kinds *lifecycle.Kinds, r *lifecycle.OwnerReference) string {
	resource := lifecycle.ResourceName(r.Group(), strings.ToLower(r.Kind))
	if k := kinds.Of(r.Group(), r.Kind); k != nil {
		resource = k.Resource()
	}
	return resource + "/" + r.Name
}

// expiry records when an object that stays is deleted because of the time.
func (o *Object) expiry(r *run, n *lifecycle.Node) {
	o.ExpiresAt = n.ExpiresAt
	for _, given := range r.tx.Notices(n.UID) {
		policy := r.tx.Node(given.Policy)
		if !given.Stale(policy) && (o.NoticePolicy == "" || given.Due() < o.Notice.Due()) {
			o.Notice, o.NoticePolicy = given, policy.Name
		}
	}
}

// blockUsers sets the users that block an object.
func (o *Object) blockUsers(name string, count uint64) {
	o.Blockers = slices.DeleteFunc(o.Blockers, func(b Blocker) bool { return b.Type == coppicev1.PlanBlocker_TYPE_USERS })
	o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_USERS, Name: name, Count: count})
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

// waits records the dependents, users and contents for which a terminating object waits.
func (o *Object) waits(r *run, n *lifecycle.Node) {
	v := r.tx
	var count uint64
	switch of := lifecycle.Dependents(v, n); {
	case n.Orphaning():
		count = of.All
	case n.Waiting():
		count = of.Blocking
		if of.Protected > 0 {
			o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_PROTECTED, Count: of.Protected})
		}
		if examine := lifecycle.PendingOf(v, n.UID, n).Examine; examine > lifecycle.MaxExamined {
			o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_UNEXAMINED, Count: examine})
		}
	}
	if count > 0 {
		o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_DEPENDENTS, Count: count})
	}
	if n.InUse() {
		if name, count := r.users(n); count > 0 {
			o.blockUsers(name, count)
		}
	}
	if n.Draining() {
		if until := lifecycle.PodsUntil(v, n); until > r.rules.Now {
			o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_PODS, Until: until})
		}
		o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_CONTENTS})
	}
}

func tooLarge(max int) *lifecycle.Error {
	return &lifecycle.Error{
		Reason:  api.ErrRequestEntityTooLarge,
		Message: fmt.Sprintf("the plan has more than %d objects; plan the deletion of dependents first", max),
	}
}
