package fake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/planname"
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
	if err := checkNames(names...); err != nil {
		return nil, err
	}
	var plan *client.Plan
	err := r.c.read(ctx, o.Reply, func(realm *memrealm.Realm) (err error) {
		plan, err = planOf(realm, []part{{r, names, &client.DeleteOptions{
			Propagation: o.Propagation, GracePeriod: o.GracePeriod, UID: o.UID, ResourceVersion: o.ResourceVersion,
		}}}, o.Unprotect)
		return err
	})
	return plan, err
}

// PlanDeletions is Plan for several deletions, all in one commit.
func (c *Client) PlanDeletions(ctx context.Context, deletions []client.Deletion, opts ...client.PlanDeletionsOption) (*client.Plan, error) {
	o := collect(opts, client.PlanDeletionsOption.ApplyToPlanDeletions)
	parts, err := c.parts(deletions)
	if err != nil {
		return nil, err
	}
	var plan *client.Plan
	err = c.read(ctx, o.Reply, func(realm *memrealm.Realm) (err error) {
		plan, err = planOf(realm, parts, false)
		return err
	})
	return plan, err
}

// part is a deletion of objects of one resource in one namespace.
type part struct {
	of    *resourceClient
	names []string
	o     *client.DeleteOptions
}

// parts returns deletions as parts.
func (c *Client) parts(deletions []client.Deletion) (parts []part, err error) {
	if len(deletions) == 0 {
		return nil, lifecycle.ErrBadRequest("the request names no deletions")
	}
	if n := len(deletions) - 1; n > bus.MaxDeleteParts {
		return nil, &client.Error{Reason: client.ErrRequestEntityTooLarge, Message: fmt.Sprintf(
			"the request has %d deletions, and at most %d are allowed: delete objects of fewer kinds and namespaces at once", n+1, bus.MaxDeleteParts+1)}
	}
	type object struct{ resource, namespace, name string }
	named := map[object]bool{}
	for i, d := range deletions {
		if len(d.Names) == 0 && i > 0 {
			return nil, lifecycle.ErrBadRequest("also[%d]: the part of %s names no objects; leave it out", i-1, d.Resource)
		}
		if d.Resource.Plural == "" {
			return nil, lifecycle.ErrBadRequest("also[%d].resource: %q names no type; write the plural of a kind with its group, such as deployments.apps", i-1, d.Resource)
		}
		if err := checkNames(d.Names...); err != nil {
			return nil, err
		}
		for _, name := range d.Names {
			o := object{d.Resource.String(), d.Namespace, name}
			if named[o] && len(deletions) > 1 {
				return nil, lifecycle.ErrBadRequest("also: the deletion names %s/%s in namespace %q twice; name it once", o.resource, o.name, o.namespace)
			}
			named[o] = true
		}
		parts = append(parts, part{
			&resourceClient{c: c, resource: d.Resource, namespace: d.Namespace}, d.Names,
			&client.DeleteOptions{Propagation: d.Propagation, GracePeriod: d.GracePeriod},
		})
	}
	return parts, nil
}

// requests returns parts as a request has them.
func requests(parts []part) (list []*coppicev1.DeleteRequest) {
	for _, of := range parts {
		list = append(list, &coppicev1.DeleteRequest{Options: message(of.o)})
	}
	return list
}

// checkPlan fails with ErrBadRequest if a deletion has other options than its plan, and with ErrConflict if a deletion does not do what its plan says. c.mu is locked.
func (c *Client) checkPlan(parts []part, plan string) error {
	was, refusal := planname.Check(plan, requests(parts)...)
	if refusal != nil {
		return refusal
	}
	now, err := planOf(c.realm, parts, false)
	if err != nil {
		return err
	}
	if was.Hash != now.GetHash() {
		return &client.Error{Reason: client.ErrConflict, Message: fmt.Sprintf("the plan %s is not what the deletion would do now (%s); plan again", plan, now.GetPlan())}
	}
	return nil
}

// planner computes a plan in a copy of a realm.
type planner struct {
	realm      *memrealm.Realm
	namespaces []string // of the request, nil for all: the plan names no object of another
	objects    map[uid.UID]*planned
	foreground bool // is the policy of the request that is applied
}

// planned is an object of a plan.
type planned struct {
	node      *lifecycle.Node // before the deletion
	message   *coppicev1.PlannedObject
	lost      []lifecycle.OwnerReference
	asked     string        // how the deletion asks for it, if it names the object
	mark      planname.Mark // the first
	orphaned  bool
	immediate bool // removed by the collector alone
}

// planOf plans deletions, or removals of protections.
func planOf(realm *memrealm.Realm, parts []part, unprotect bool) (*client.Plan, error) {
	for _, of := range parts {
		if len(of.names) == 0 {
			return nil, lifecycle.ErrBadRequest("the request names no names")
		}
		if _, err := of.of.key(realm); err != nil {
			return nil, err
		}
	}
	p := planner{realm: realm.Clone(), objects: map[uid.UID]*planned{}}
	for _, of := range parts {
		p.namespaces = append(p.namespaces, of.of.namespace)
	}
	if slices.Contains(p.namespaces, "") {
		p.namespaces = nil
	}
	p.realm.OnChange, p.realm.Plan = p.change, true
	index := 0
	for _, of := range parts {
		at, err := of.of.key(realm)
		if err != nil {
			return nil, err
		}
		o := message(of.o)
		p.foreground = o.GetPropagationPolicy() == lifecycle.Foreground
		for _, name := range of.names {
			at.Name = name
			out, refusal := p.begin(at, o, unprotect)
			if refusal != nil {
				refusal.Index = index
				return nil, refusal
			}
			index++
			x := p.add(out.Object.Node)
			x.message.Requested, x.asked = true, fmt.Sprint(unprotect, planname.Text(&coppicev1.DeleteRequest{Options: o}))
			p.realm.Apply(out.Events)
		}
	}
	p.realm.SettleActive()
	for u, x := range p.objects {
		x.immediate = p.realm.Node(u) == nil
	}
	for p.answer() {
		p.realm.SettleActive()
	}
	p.addProtected()
	options := planname.Of(requests(parts)...)
	if unprotect {
		options = planname.OfUnprotect(requests(parts)[0])
	}
	return p.result(realm.Revision, options), nil
}

// begin decides the request that is planned: a deletion, or the removal of a protection.
func (p *planner) begin(at lifecycle.Key, o *coppicev1.DeleteOptions, unprotect bool) (*lifecycle.Outcome, *lifecycle.Error) {
	if unprotect {
		return lifecycle.Unprotect(rules(p.realm), at, o.GetPreconditions())
	}
	return lifecycle.Delete(rules(p.realm), at, "", o)
}

// addProtected adds the protected objects that are left because of the deletion.
func (p *planner) addProtected() {
	for _, u := range p.realm.UIDs() {
		n := p.realm.Node(u)
		if !n.Protected() || p.objects[u] != nil {
			continue
		}
		left := lifecycle.Evaluate(p.realm, n, p.realm.Clock).Decision == lifecycle.KeepProtected &&
			slices.ContainsFunc(n.Owners, func(o lifecycle.OwnerReference) bool { return p.objects[o.UID] != nil })
		for _, c := range lifecycle.Containers(p.realm, n) {
			left = left || p.objects[c] != nil && p.realm.Node(c) != nil && p.realm.Node(c).Draining()
		}
		if left {
			p.add(n)
		}
	}
}

// visible reports whether the plan may name an object.
func (p *planner) visible(n *lifecycle.Node) bool {
	return p.namespaces == nil || n.Namespace == "" || slices.Contains(p.namespaces, n.Namespace)
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
func (p *planner) change(e *lifecycle.Event, before, after lifecycle.Object) {
	x := p.add(before.Node)
	if e.Type == lifecycle.DeletionMarked && x.mark == (planname.Mark{}) {
		x.mark = planname.MarkOf(before.Node, after.Node)
	}
	if e.Type == lifecycle.DeletionMarked && after.InUse() && after.Waiting() && !before.Terminating() &&
		!before.HasFinalizer(lifecycle.FinalizerForeground) && e.Reason != coppicev1.Reason_REASON_OWNER_WAITING {
		x.message.ForegroundForUsers = !p.foreground || e.Reason != coppicev1.Reason_REASON_REQUESTED
	}
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
			p.realm.TouchSession(id, true)
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
		if lifecycle.CallsAgent(n) {
			x.block(coppicev1.PlanBlocker_TYPE_AGENT, "", 0)
			none := int64(0)
			any = p.apply(lifecycle.Delete(rules(p.realm), key, "", &coppicev1.DeleteOptions{GracePeriodSeconds: &none})) || any
		}
		for _, f := range n.Finalizers {
			if !lifecycle.IsBuiltinFinalizer(f) && lifecycle.CallsFinalizers(p.realm.Kinds().OfNode(n), n) {
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
		if counts.Protected > 0 {
			x.block(coppicev1.PlanBlocker_TYPE_PROTECTED, "", uint32(counts.Protected))
		}
	}
	if count > 0 {
		x.block(coppicev1.PlanBlocker_TYPE_DEPENDENTS, "", uint32(count))
	}
	if users := p.realm.UsersOf(n); n.InUse() && len(users) > 0 {
		name := ""
		if i := slices.IndexFunc(users, func(u uid.UID) bool { return p.visible(p.realm.Node(u)) }); i >= 0 {
			name = lifecycle.UserName(p.realm, n, p.realm.Node(users[i]))
		}
		x.block(coppicev1.PlanBlocker_TYPE_USERS, name, uint32(len(users)))
	}
	if n.Draining() {
		if lifecycle.PodsUntil(p.realm, n) > p.realm.Clock {
			x.block(coppicev1.PlanBlocker_TYPE_PODS, "", 0)
		}
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
func (p *planner) result(revision uint64, options planname.Options) *client.Plan {
	plan := &client.Plan{Revision: revision, Counts: &coppicev1.PlanCounts{}}
	hash := sha256.New()
	for _, u := range p.order() {
		x := p.objects[u]
		counts := plan.Counts
		if !p.visible(x.node) {
			counts = &coppicev1.PlanCounts{}
		}
		x.message.Outcome = p.outcome(x, counts)
		if n := p.realm.Node(u); n != nil {
			x.message.References = lifecycle.Object{Node: &lifecycle.Node{Owners: x.lost}}.API().GetMetadata().GetOwnerReferences()
			if !n.Terminating() && !n.Protected() {
				x.message.ExpiresAt = int64(n.ExpiresAt)
			}
		}
		x.message.Because = p.because(x)
		outcome := x.message.Outcome
		if outcome == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED_LATER {
			outcome = coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED
		}
		_, _ = io.WriteString(hash, fmt.Sprintf("%s %d %d %s %v\n", u, outcome, len(x.message.References), x.asked, x.mark)) // a hash never fails
		if p.visible(x.node) {
			plan.Objects = append(plan.Objects, x.message)
		} else {
			plan.Elsewhere++
		}
	}
	plan.Hash = planname.Hash([sha256.Size]byte(hash.Sum(nil)))
	plan.Plan = planname.Name{Options: options, Hash: plan.Hash, Revision: revision}.String()
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
	case n.Protected():
		c.Protected++
		x.block(coppicev1.PlanBlocker_TYPE_PROTECTION, lifecycle.ProtectedBy(p.realm, n), 0)
		return coppicev1.PlanOutcome_PLAN_OUTCOME_PROTECTED
	}
	c.Kept++
	return coppicev1.PlanOutcome_PLAN_OUTCOME_KEPT
}

// because returns the uid of the object in the plan that led to the change of x: an owner, the
// container or, if x waited for it, a dependent. It is empty if the request names x.
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
	for _, u := range p.order() { // it waited for a dependent
		if u != x.node.UID && refersTo(p.objects[u].node, x.node) {
			return u.String()
		}
	}
	return ""
}
