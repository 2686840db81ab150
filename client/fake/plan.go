package fake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Plan deletes the objects in a copy of the realm, and reports what happens there: what the
// collector does, and then what happens after external finalizers, agents and controllers
// have done their part. Objects that the deletion does not change are left out, as are the
// blockers of type OWNER. The hashes differ from those of the real realm. DependsOnOrder
// is not computed.
func (r *resourceClient) Plan(ctx context.Context, names []string, opts ...client.PlanOption) (*client.Plan, error) {
	o := collect(opts, client.PlanOption.ApplyToPlan)
	var plan *client.Plan
	err := r.c.read(ctx, o.Reply, func(realm *memrealm.Realm) (err error) {
		plan, err = r.plan(realm, names, &client.DeleteOptions{
			Propagation: o.Propagation, GracePeriod: o.GracePeriod, UID: o.UID, ResourceVersion: o.ResourceVersion,
		})
		return err
	})
	return plan, err
}

// checkPlan fails with ErrConflict if a deletion does not do what its plan says. c.mu is locked.
func (r *resourceClient) checkPlan(names []string, o *client.DeleteOptions) error {
	now, err := r.plan(r.c.realm, names, o)
	if err != nil {
		return err
	}
	if hash, _, _ := strings.Cut(o.Plan, "@"); hash != now.GetHash() {
		return &client.Error{Reason: client.ErrConflict, Message: fmt.Sprintf("the plan %s is not what the deletion would do now (%s); plan again", o.Plan, now.GetPlan())}
	}
	return nil
}

// planner computes a plan in a copy of a realm.
type planner struct {
	realm   *memrealm.Realm
	objects map[uid.UID]*planned
}

// planned is an object of a plan.
type planned struct {
	node      *lifecycle.Node // before the deletion
	message   *coppicev1.PlannedObject
	lost      []lifecycle.OwnerReference
	orphaned  bool
	immediate bool // removed by the collector alone
}

func (r *resourceClient) plan(realm *memrealm.Realm, names []string, o *client.DeleteOptions) (*client.Plan, error) {
	if len(names) == 0 {
		return nil, lifecycle.ErrBadRequest("the request names no names")
	}
	at, err := r.key(realm)
	if err != nil {
		return nil, err
	}
	p := planner{realm: realm.Clone(), objects: map[uid.UID]*planned{}}
	p.realm.OnChange = p.change
	for i, name := range names {
		at.Name = name
		out, refusal := lifecycle.Delete(rules(p.realm), at, "", message(o))
		if refusal != nil {
			refusal.Index = i
			return nil, refusal
		}
		p.add(out.Object.Node).message.Requested = true
		p.realm.Apply(out.Events)
	}
	p.realm.SettleActive()
	for u, x := range p.objects {
		x.immediate = p.realm.Node(u) == nil
	}
	for p.answer() {
		p.realm.SettleActive()
	}
	return p.result(realm.Revision), nil
}

// add adds an object as it is before the deletion.
func (p *planner) add(n *lifecycle.Node) *planned {
	x := p.objects[n.UID]
	if x == nil {
		x = &planned{node: n, message: &coppicev1.PlannedObject{
			Resource: p.realm.Kinds().OfNode(n).Resource(), Namespace: n.Namespace, Name: n.Name, Uid: n.UID.String(), Terminating: n.Terminating(),
		}}
		p.objects[n.UID] = x
	}
	return x
}

// change notes an event.
func (p *planner) change(e *lifecycle.Event, before, _ lifecycle.Object) {
	x := p.add(before.Node)
	if e.Type == lifecycle.OwnerReferencesRemoved {
		x.lost = append(x.lost, e.References...)
		x.orphaned = x.orphaned || e.Reason == coppicev1.Reason_REASON_OWNER_ORPHANS
	}
}

// answer lets everything outside of the collector that an object waits for do its part, and
// reports whether there was anything.
func (p *planner) answer() bool {
	var any bool
	for _, u := range p.order() {
		x, n := p.objects[u], p.realm.Node(u)
		if n == nil || !n.Terminating() {
			continue
		}
		p.block(x, n)
		if id := n.ImportSession; id != "" && lifecycle.BeginsAfter(p.realm, n) > p.realm.Clock {
			p.realm.SetSession(id, lifecycle.Session{})
			any = true
		}
		if !n.Acknowledged() {
			x.block(coppicev1.PlanBlocker_TYPE_GENERATION, "", 0)
			seen := *n
			seen.ObservedGeneration = n.AwaitedGeneration
			p.realm.Apply([]lifecycle.Event{{Type: lifecycle.ObjectUpdated, UID: u, Object: lifecycle.Object{Node: &seen}}})
			any = true
		}
		key := lifecycle.KeyOf(p.realm, n)
		if n.Ending() {
			x.block(coppicev1.PlanBlocker_TYPE_AGENT, "", 0)
			none := int64(0)
			any = p.apply(lifecycle.Delete(rules(p.realm), key, "", &coppicev1.DeleteOptions{GracePeriodSeconds: &none})) || any
		}
		for _, f := range n.Finalizers {
			if !lifecycle.IsBuiltinFinalizer(f) {
				x.block(coppicev1.PlanBlocker_TYPE_FINALIZER, f, 0)
				any = p.apply(lifecycle.RemoveFinalizer(rules(p.realm), key, f, nil)) || any
			}
		}
	}
	return any
}

// apply applies an outcome, and reports whether it changes anything.
func (p *planner) apply(out *lifecycle.Outcome, err *lifecycle.Error) bool {
	if err != nil { // the object no longer exists
		return false
	}
	p.realm.Apply(out.Events)
	return out.Changed()
}

// block notes the dependents and the contents that a terminating object waits for.
func (p *planner) block(x *planned, n *lifecycle.Node) {
	counts := lifecycle.Dependents(p.realm, n)
	count := uint64(0)
	switch {
	case n.Orphaning():
		count = counts.All
	case n.Waiting():
		count = counts.Blocking
	}
	if count > 0 {
		x.block(coppicev1.PlanBlocker_TYPE_DEPENDENTS, "", uint32(count))
	}
	if n.Draining() {
		x.block(coppicev1.PlanBlocker_TYPE_CONTENTS, "", 0)
	}
}

// block notes a blocker once.
func (x *planned) block(t coppicev1.PlanBlocker_Type, name string, count uint32) {
	for _, b := range x.message.Blockers {
		if b.GetType() == t && b.GetName() == name {
			return
		}
	}
	x.message.Blockers = append(x.message.Blockers, &coppicev1.PlanBlocker{Type: t, Name: name, Count: count})
}

// order returns the objects by resource, namespace and name.
func (p *planner) order() []uid.UID {
	var uids []uid.UID
	for u := range p.objects {
		uids = append(uids, u)
	}
	slices.SortFunc(uids, func(a, b uid.UID) int {
		x, y := p.objects[a].message, p.objects[b].message
		return cmp.Or(cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return uids
}

// result returns the plan.
func (p *planner) result(revision uint64) *client.Plan {
	plan := &client.Plan{Revision: revision, Counts: &coppicev1.PlanCounts{}}
	hash := sha256.New()
	for _, u := range p.order() {
		x := p.objects[u]
		x.message.Outcome = p.outcome(x, plan.Counts)
		if p.realm.Node(u) != nil {
			x.message.References = lifecycle.Object{Node: &lifecycle.Node{Owners: x.lost}}.API().GetMetadata().GetOwnerReferences()
		}
		x.message.Because = p.because(x)
		outcome := x.message.Outcome
		if outcome == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED_LATER {
			outcome = coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED
		}
		_, _ = io.WriteString(hash, fmt.Sprintf("%s %d %d\n", u, outcome, len(x.message.References))) // a hash never fails
		plan.Objects = append(plan.Objects, x.message)
	}
	plan.Hash = hex.EncodeToString(hash.Sum(nil))[:16]
	plan.Plan = fmt.Sprintf("%s@%d", plan.Hash, revision)
	return plan
}

// outcome returns what has become of an object, and counts it.
func (p *planner) outcome(x *planned, c *coppicev1.PlanCounts) coppicev1.PlanOutcome {
	n := p.realm.Node(x.node.UID)
	switch {
	case n == nil && x.immediate:
		c.Removed++
		return coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED
	case n == nil:
		c.RemovedLater++
		return coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED_LATER
	case n.Terminating():
		c.Blocked++
		return coppicev1.PlanOutcome_PLAN_OUTCOME_BLOCKED
	case x.orphaned:
		c.Orphaned++
		return coppicev1.PlanOutcome_PLAN_OUTCOME_ORPHANED
	case len(x.lost) > 0:
		c.Stripped++
		return coppicev1.PlanOutcome_PLAN_OUTCOME_STRIPPED
	}
	c.Kept++
	return coppicev1.PlanOutcome_PLAN_OUTCOME_KEPT
}

// because returns the uid of an owner or of the container in the plan, empty for an object
// that the request names.
func (p *planner) because(x *planned) string {
	if x.message.Requested {
		return ""
	}
	for i := range x.node.Owners {
		if owner := x.node.Owners[i].UID; p.objects[owner] != nil {
			return owner.String()
		}
	}
	for u, other := range p.objects {
		if u != x.node.UID && lifecycle.Contains(p.realm, other.node, x.node) {
			return u.String()
		}
	}
	return ""
}
