package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

var foreground = client.Foreground

// planned creates a deployment that owns a replicaset that owns pods. The first pod has a
// finalizer without a consumer.
func (r *realm) planned(podNames ...string) *coppicev1.Object {
	r.t.Helper()
	web := r.create(deployments, "shop", named("web"))
	rs := r.create(replicasets, "shop", named("rs", web))
	for i, name := range podNames {
		pod := named(name, rs)
		if i == 0 {
			pod.Metadata.Finalizers = []string{"example.com/bucket"}
		}
		r.create(pods, "shop", pod)
	}
	return rs
}

func (r *realm) plan(names ...string) *client.Plan {
	r.t.Helper()
	p, err := r.Resource(deployments, "shop").Plan(r.ctx, names, foreground)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// revision returns the realm's revision.
func (r *realm) revision() uint64 {
	r.t.Helper()
	page, err := r.Resource(pods, "shop").ListPage(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return page.Revision
}

// A plan changes nothing. A deletion by the plan has the effect that the plan shows.
func TestPlanned(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.planned("a", "b")
	before := r.revision()
	p := r.plan("web")
	if c := p.GetCounts(); c.GetRemoved() != 1 || c.GetRemovedLater() != 3 || len(p.GetObjects()) != 4 {
		t.Fatalf("the plan is %v", p)
	}
	if again := r.plan("web"); again.GetPlan() != p.GetPlan() {
		t.Errorf("the plan was %s, and then %s", p.GetPlan(), again.GetPlan())
	}
	if _, err := r.Resource(pods, "shop").Resolve(r.ctx, []string{"a"}, client.FollowOwners(true)); err != nil {
		t.Fatal(err)
	}
	// S13: neither a plan nor an explanation has a revision.
	if after := r.revision(); after != before {
		t.Errorf("the revision was %d, and then %d", before, after)
	}
	results, err := r.Resource(deployments, "shop").DeleteBatch(r.ctx, []string{"web"}, foreground, client.ByPlan(p.GetPlan()))
	if err != nil || len(results) != 1 || results[0].State != client.Pending {
		t.Fatalf("%v, %v", results, err)
	}
	r.gone(pods, "shop", "b")
	if _, err := r.Resource(pods, "shop").Delete(r.ctx, "a"); err != nil {
		t.Fatal(err)
	}
	// A plan of the remaining deletion has another hash.
	if rest := r.plan("web"); rest.GetHash() == p.GetHash() || len(rest.GetObjects()) != 3 {
		t.Errorf("then the plan is %v", rest)
	}
}

// A deletion by a plan that is out of date is refused, names the changes, and changes
// nothing.
func TestPlanChanged(t *testing.T) {
	t.Parallel()
	r := start(t)
	rs := r.planned("a", "b")
	p := r.plan("web")
	late := named("late", rs)
	late.Metadata.OwnerReferences[0].BlockOwnerDeletion = nil
	r.create(pods, "shop", late)
	for _, name := range []string{p.GetPlan(), p.GetHash()} {
		_, err := r.Resource(deployments, "shop").DeleteBatch(r.ctx, []string{"web"}, foreground, client.ByPlan(name))
		var e *client.Error
		if !asError(err, &e) || e.Reason != client.ErrConflict || len(e.Causes) == 0 {
			t.Fatalf("with plan %s: %v", name, err)
		}
		if e.Causes[0].Field != "pods/late (shop)" {
			t.Errorf("with plan %s the first cause is %v", name, e.Causes[0])
		}
		contains(t, "the refusal", e.Message, name, "plan again")
	}
	if m := r.get(deployments, "shop", "web").GetMetadata(); m.GetDeletionTimestamp() != nil {
		t.Errorf("it was done all the same: %v", m)
	}
	if _, err := r.Resource(deployments, "shop").DeleteBatch(r.ctx, []string{"web"}, foreground, client.ByPlan(r.plan("web").GetPlan())); err != nil {
		t.Error(err)
	}
}

// A plan covers all objects of the request. They are all deleted, or none is.
func TestPlanOfSeveral(t *testing.T) {
	t.Parallel()
	r := start(t)
	web, api := r.create(deployments, "shop", named("web")), r.create(deployments, "shop", named("api"))
	r.create(pods, "shop", named("shared", web, api))
	if c := r.plan("web").GetCounts(); c.GetRemoved() != 1 || c.GetStripped() != 1 {
		t.Errorf("of one: %v", c)
	}
	both := r.plan("web", "api")
	if c := both.GetCounts(); c.GetRemoved() != 3 {
		t.Errorf("of both: %v", c)
	}
	if _, err := r.Resource(deployments, "shop").DeleteBatch(r.ctx, []string{"web"}, foreground, client.ByPlan(both.GetPlan())); !errors.Is(err, client.ErrConflict) {
		t.Errorf("one, with the plan of both: %v", err)
	}
	if _, err := r.Resource(deployments, "shop").DeleteBatch(r.ctx, []string{"web", "api"}, foreground, client.ByPlan(both.GetPlan())); err != nil {
		t.Error(err)
	}
	r.gone(pods, "shop", "shared")
}

func TestPlanRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, err := r.Resource(deployments, "shop").Plan(r.ctx, []string{"nope"})
	if !errors.Is(err, client.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
	_, err = r.Resource(deployments, "shop").Plan(r.ctx, nil)
	if !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("nothing: %v", err)
	}
	r.create(deployments, "shop", named("web"))
	_, err = r.Resource(deployments, "shop").DeleteBatch(r.ctx, []string{"web"}, client.ByPlan("nonsense"))
	if !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("no plan: %v", err)
	}
	reply := r.request("plan", "apps.deployments.shop", `{"delete": {"names": ["web"], "options": {"propagationPolicy": "Foreground"}}}`)
	contains(t, "the plan as JSON", strings.ReplaceAll(string(reply.Data), " ", ""), `"outcome":"PLAN_OUTCOME_REMOVED"`, `"counts":{"removed":1}`, `"requested":true`)
}

// A large plan is returned in pages, because its objects have many blockers. It is too
// large for the writer.
func TestLargePlan(t *testing.T) {
	t.Parallel()
	const n = 400
	r, stop := startWith(t, allinone.Config{Dir: t.TempDir(), Graph: func(c *graph.Config) { c.PlanLimit = n }})
	t.Cleanup(stop)
	web := r.create(deployments, "shop", named("web"))
	var finalizers []string
	for i := range 50 {
		finalizers = append(finalizers, fmt.Sprintf("%s.example.com/x-%d", strings.Repeat(strings.Repeat("x", 59)+".", 4)+"x", i))
	}
	for first := 0; first < n; first += n / 4 {
		r.createAll(pods, "shop", n/4, func(i int) *coppicev1.Object {
			o := named(fmt.Sprintf("pod-%d", first+i), web)
			o.Metadata.Finalizers = finalizers
			return o
		})
	}
	reply := r.request("plan", "apps.deployments.shop", `{"delete": {"names": ["web"], "options": {"propagationPolicy": "Foreground"}}}`)
	contains(t, "the first page", strings.ReplaceAll(string(reply.Data[len(reply.Data)-1000:]), " ", ""), `"truncated":true`)
	p := r.plan("web")
	if len(p.GetObjects()) != n+1 || p.GetCounts().GetRemovedLater() != n+1 {
		t.Fatalf("the plan has %d objects, and counts %v", len(p.GetObjects()), p.GetCounts())
	}
	_, err := r.Resource(deployments, "shop").DeleteBatch(r.ctx, []string{"web"}, foreground, client.ByPlan(p.GetPlan()))
	var e *client.Error
	if !asError(err, &e) || e.Reason != client.ErrRequestEntityTooLarge {
		t.Fatalf("the writer was asked to plan %d objects: %v", n, err)
	}
	contains(t, "the refusal", e.Message, "400 objects", "nothing was deleted")
	if m := r.get(deployments, "shop", "web").GetMetadata(); m.GetDeletionTimestamp() != nil {
		t.Errorf("it was done all the same: %v", m)
	}
}
