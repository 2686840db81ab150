package console

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/plan"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The limits of pages about a plan.
const (
	maxPlanNodes = 200 // in a reply
	// confirmFrom is the number of objects that go from which the name of the object is to be typed.
	confirmFrom = 101
)

// planPage replies with what the deletion of an object would do.
func (r *realm) planPage(ctx context.Context, q *http.Request) (any, error) {
	policy, grace, err := policyOf(q)
	if err != nil {
		return nil, err
	}
	k, namespace, err := r.place(ctx, q)
	if err != nil {
		return nil, err
	}
	name := q.PathValue("name")
	request := &plan.Request{}
	if err := request.Add(plan.Object{Kind: k, Namespace: namespace, Name: name}, policy, grace); err != nil {
		return nil, err
	}
	stored, err := r.client.Resource(client.ResourceOf(k), namespace).Get(ctx, name, client.IncludeUninitialized(true))
	if err != nil {
		return nil, err
	}
	at := view.Ref{Resource: client.ResourceOf(k).String(), Namespace: namespace, Name: name, UID: stored.GetMetadata().GetUid()}
	if uid := q.FormValue("uid"); uid != "" && uid != at.UID {
		return nil, anotherUID(at, uid)
	}
	leave, err := r.user.planning.take(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := r.client.PlanDeletions(ctx, request.Parts, client.MinRevision(stored.GetMetadata().GetResourceVersion()))
	if err != nil {
		return nil, err
	}
	t := newPlanned(r.name, p)
	if root := t.root(); root == nil || root.GetUid() != at.UID { // it was created again in between
		return nil, anotherUID(at, at.UID)
	}
	id := r.user.all.plans.add(r.user, t, r.user.all.s.c.Now())
	v := view.Plan{
		ID: id, Plan: p.GetPlan(), Revision: p.GetRevision(), Object: at, Policy: string(policy), Counts: planCounts(p.GetCounts()), Says: plan.Sum(p),
		Confirm: t.goes >= confirmFrom || t.unbound, Goes: t.goes,
		Unbound: t.unbound,
	}
	reader := r.reader(&v.Missing)
	times, err := plan.FinalizerTimes(ctx, reader, p)
	if err != nil {
		return nil, err
	}
	v.Waits = listed(plan.Waits(ctx, reader, p))
	v.Notes = listed(plan.Notes(p, times))
	words := plan.Words(ctx, reader)
	v.Root = t.node(&words, t.root())
	v.Below, _ = t.below(&words, at.UID, "", 0)
	v.Command = request.Command(p.GetPlan(), "")
	if v.Unbound {
		v.Command = unboundCommand(v.Command, p.GetPlan(), policy, grace)
	}
	if r.name != bus.DefaultRealm {
		v.Command += " --realm " + r.name
	}
	return v, nil
}

// unboundCommand returns the command line that deletes in the same way without the plan.
func unboundCommand(command, plan string, policy client.PropagationPolicy, grace *time.Duration) string {
	command = strings.TrimSuffix(command, " --plan="+plan) + " --cascade=" + strings.ToLower(string(policy))
	if grace != nil {
		command += fmt.Sprintf(" --grace-period=%d", int(grace.Seconds()))
	}
	return command
}

// policyOf returns the policy and the grace period that a request asks for.
func policyOf(q *http.Request) (policy client.PropagationPolicy, grace *time.Duration, err error) {
	switch policy = client.PropagationPolicy(q.FormValue("policy")); policy {
	case "":
		policy = client.Background
	case client.Background, client.Foreground, client.Orphan:
	default:
		return "", nil, badRequest("policy=%s is not known; there are %s, %s and %s", clip(string(policy)), client.Background, client.Foreground, client.Orphan)
	}
	text := q.FormValue("grace")
	if text == "" {
		return policy, nil, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > math.MaxInt32 {
		return "", nil, badRequest("grace=%s is not a grace period: write seconds, at most %d, or leave it out for the objects' own", clip(text), math.MaxInt32)
	}
	period := time.Duration(seconds) * time.Second
	return policy, &period, nil
}

// place returns the kind and the namespace that the path of a request names.
func (r *realm) place(ctx context.Context, q *http.Request) (k client.Kind, namespace string, err error) {
	if namespace = q.PathValue("namespace"); namespace == noNamespace {
		namespace = ""
	}
	return r.kindIn(ctx, q.PathValue("resource"), namespace)
}

// kindIn returns the kind with a resource, and refuses a namespace that its objects cannot have.
func (r *realm) kindIn(ctx context.Context, resource, namespace string) (client.Kind, string, error) {
	k, err := r.kind(ctx, resource)
	if err == nil && k.Namespaced() != (namespace != "") {
		err = badRequest("objects of the kind %s are named with a namespace if they have one, and else with %s in its place", client.ResourceOf(k), noNamespace)
	}
	return k, namespace, err
}

// anotherUID refuses a request about an object that was created again with its name.
func anotherUID(at view.Ref, uid string) error {
	return &client.Error{
		Reason: client.ErrConflict, Resource: at.Resource, Namespace: at.Namespace, Name: at.Name, UID: at.UID,
		Message: fmt.Sprintf("%s/%s with the uid %s was removed, and another object with its name has the uid %s; open that one, and look at it first", at.Resource, clip(at.Name), clip(uid), at.UID),
	}
}

func planCounts(c *coppicev1.PlanCounts) view.PlanCounts {
	return view.PlanCounts{
		Removed: int(c.GetRemoved()), RemovedLater: int(c.GetRemovedLater()), Blocked: int(c.GetBlocked()), Orphaned: int(c.GetOrphaned()),
		Stripped: int(c.GetStripped()), Kept: int(c.GetKept()), Protected: int(c.GetProtected()),
	}
}

// belowPage replies with nodes of a plan.
func (r *realm) belowPage(ctx context.Context, q *http.Request) (any, error) {
	from := 0
	if text := q.FormValue("from"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return nil, badRequest("from=%s is not the number of nodes to skip", clip(text))
		}
	}
	t := r.user.all.plans.get(r.user, r.name, q.PathValue("id"), r.user.all.s.c.Now())
	if t == nil {
		return nil, &client.Error{Reason: client.ErrNotFound, Message: "the console keeps this plan no longer; plan again"}
	}
	if _, err := r.readKinds(ctx); err != nil {
		return nil, err
	}
	var missing []view.Missing // the reply to the plan has had them
	words := plan.Words(ctx, r.reader(&missing))
	below, found := t.below(&words, q.FormValue("uid"), q.FormValue("resource"), from)
	if !found {
		return nil, &client.Error{Reason: client.ErrNotFound, Message: "the plan has no object with the uid " + clip(q.FormValue("uid"))}
	}
	return below, nil
}

// node returns an object of a plan as pages show it.
func (t *planned) node(words *tree.PlanWords, o *coppicev1.PlannedObject) view.PlanNode {
	n := view.PlanNode{
		Ref:     view.Ref{Resource: o.GetResource(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUid()},
		Outcome: outcomeOf(o), Says: words.Outcome(o), Terminating: o.GetTerminating(), Uncertain: o.GetDependsOnOrder(), Below: t.count[o.GetUid()],
	}
	if o.GetForegroundForUsers() {
		n.Says += "; in the foreground, because others use it"
	}
	if n.Below > 0 {
		n.Children = t.children(o.GetUid()).nodes()
	}
	return n
}

func outcomeOf(o *coppicev1.PlannedObject) string {
	return terminal.Camel(o.GetOutcome().String(), "PLAN_OUTCOME_")
}

// below returns nodes directly below the object with a uid: those of a group if the resource of one is given. It returns
// false if the plan has no such object.
func (t *planned) below(words *tree.PlanWords, uid, resource string, from int) (view.PlanBelow, bool) {
	if !t.has[uid] {
		return view.PlanBelow{}, false
	}
	c := t.children(uid)
	if resource != "" {
		c = c.group(resource)
	}
	b := view.PlanBelow{Nodes: []view.PlanNode{}, From: from, Total: c.nodes()}
	for i := from; i < min(from+maxPlanNodes, b.Total); i++ {
		if i < len(c.others) {
			b.Nodes = append(b.Nodes, t.node(words, c.others[i]))
			continue
		}
		group := c.groups[i-len(c.others)]
		b.Nodes = append(b.Nodes, view.PlanNode{
			Ref: view.Ref{Resource: group[0].GetResource()}, Group: len(group), Outcome: outcomeOf(group[0]), Says: words.Outcome(group[0]), Children: len(group), Below: len(group),
		})
	}
	return b, true
}
