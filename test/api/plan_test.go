package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

var foreground = client.Foreground

// planned creates a deployment that owns a replicaset that owns pods. The first pod has a
// finalizer without a consumer.
func (r *realm) planned(podNames ...string) *coppicev1.Object {
	r.TB.Helper()
	web := r.Create(deployments, "shop", named("web"))
	rs := r.Create(replicasets, "shop", named("rs", web))
	for i, name := range podNames {
		pod := named(name, rs)
		if i == 0 {
			pod.Metadata.Finalizers = []string{"example.com/bucket"}
		}
		r.Create(pods, "shop", pod)
	}
	return rs
}

func (r *realm) plan(names ...string) *client.Plan {
	r.TB.Helper()
	p, err := r.Resource(deployments, "shop").Plan(r.Ctx, names, foreground)
	must.Succeed(r.TB, err)
	return p
}

// revision returns the realm's revision.
func (r *realm) revision() uint64 {
	r.TB.Helper()
	page, err := r.Resource(pods, "shop").ListPage(r.Ctx)
	must.Succeed(r.TB, err)
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
	if _, err := r.Resource(pods, "shop").Resolve(r.Ctx, []string{"a"}, client.FollowOwners(true)); err != nil {
		t.Fatal(err)
	}
	// S13: neither a plan nor an explanation has a revision.
	if after := r.revision(); after != before {
		t.Errorf("the revision was %d, and then %d", before, after)
	}
	results, err := r.Resource(deployments, "shop").DeleteBatch(r.Ctx, []string{"web"}, foreground, client.ByPlan(p.GetPlan()))
	if err != nil || len(results) != 1 || results[0].State != client.Pending {
		t.Fatalf("%v, %v", results, err)
	}
	r.Gone(pods, "shop", "b")
	r.Delete(pods, "shop", "a")
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
	r.Create(pods, "shop", late)
	withoutRevision, _, _ := strings.Cut(p.GetPlan(), "@")
	for _, name := range []string{p.GetPlan(), withoutRevision} {
		_, err := r.Resource(deployments, "shop").DeleteBatch(r.Ctx, []string{"web"}, foreground, client.ByPlan(name))
		var e *client.Error
		if !asError(err, &e) || e.Reason != client.ErrConflict || len(e.Causes) == 0 {
			t.Fatalf("with plan %s: %v", name, err)
		}
		if e.Causes[0].Field != "pods/late (shop)" {
			t.Errorf("with plan %s the first cause is %v", name, e.Causes[0])
		}
		contains(t, "the refusal", e.Message, name, "plan again")
	}
	if m := r.Get(deployments, "shop", "web").GetMetadata(); m.GetDeletionTimestamp() != nil {
		t.Errorf("it was done all the same: %v", m)
	}
	if _, err := r.Resource(deployments, "shop").DeleteBatch(r.Ctx, []string{"web"}, foreground, client.ByPlan(r.plan("web").GetPlan())); err != nil {
		t.Error(err)
	}
}

// A deletion by a plan has the options that were planned, or is refused and changes nothing.
func TestPlanOptions(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.planned("a")
	web := r.Get(deployments, "shop", "web").GetMetadata()
	p := r.plan("web")
	for _, c := range []struct {
		options string
		want    string
	}{
		{`{}`, "propagationPolicy is not given, and Foreground was planned"},
		{`{"propagationPolicy": "Background"}`, "propagationPolicy is Background, and Foreground was planned"},
		{`{"propagationPolicy": "Orphan", "dryRun": ["All"]}`, "propagationPolicy is Orphan, and Foreground was planned"},
		{`{"orphanDependents": true}`, "propagationPolicy is Orphan, and Foreground was planned"},
		{`{"propagationPolicy": "Foreground", "gracePeriodSeconds": 0}`, "gracePeriodSeconds is 0, and not given was planned"},
		{`{"propagationPolicy": "Foreground", "preconditions": {"uid": "` + web.GetUid() + `"}}`, "preconditions, the version, or options of parts are not those that were planned"},
	} {
		m := r.request("delete", "apps.deployments.shop", fmt.Sprintf(`{"names": ["web"], "options": %s, "plan": %q}`, c.options, p.GetPlan()))
		if m.Header.Get(bus.HeaderReason) != "BadRequest" {
			t.Errorf("with %s: %s", c.options, m.Data)
		}
		contains(t, "the refusal", string(m.Data), "is not what "+p.GetPlan()+" plans", c.want, "nothing was done: send the options that were planned, or plan again")
	}
	// The options in the name cannot be changed, and a plan of a removal of protections is of no deletion.
	changed := "background" + strings.TrimPrefix(p.GetPlan(), "foreground")
	if _, err := r.Resource(deployments, "shop").Delete(r.Ctx, "web", client.Background, client.ByPlan(changed)); !errors.Is(err, client.ErrConflict) {
		t.Errorf("by the plan %s: %v", changed, err)
	}
	if _, err := r.Resource(deployments, "shop").Protect(r.Ctx, []string{"web"}, "ticket 1"); err != nil {
		t.Fatal(err)
	}
	unprotect, err := r.Resource(deployments, "shop").Plan(r.Ctx, []string{"web"}, client.PlanUnprotect(true))
	must.Succeed(t, err)
	if _, err := r.Resource(deployments, "shop").Unprotect(r.Ctx, []string{"web"}, "ticket 1"); err != nil {
		t.Fatal(err)
	}
	_, err = r.Resource(deployments, "shop").Delete(r.Ctx, "web", client.ByPlan(unprotect.GetPlan()))
	if !errors.Is(err, client.ErrBadRequest) || !strings.Contains(err.Error(), "the removal of protections was planned") {
		t.Errorf("by the plan %s: %v", unprotect.GetPlan(), err)
	}
	// No name is no plan, and not a deletion without one.
	if _, err := r.Resource(deployments, "shop").Delete(r.Ctx, "web", foreground, client.ByPlan("")); !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("by no plan: %v", err)
	}
	if m := r.Get(deployments, "shop", "web").GetMetadata(); m.GetDeletionTimestamp() != nil {
		t.Errorf("it was done all the same: %v", m)
	}
	// The same options are accepted, with a plan that has preconditions, too.
	same := []client.PlanOption{foreground, client.GracePeriod(5 * time.Second), client.IfUID(web.GetUid())}
	p, err = r.Resource(deployments, "shop").Plan(r.Ctx, []string{"web"}, same...)
	if err != nil || !strings.HasPrefix(p.GetPlan(), "foreground-grace5-with") {
		t.Fatalf("the plan is %v, %v", p, err)
	}
	if _, err := r.Resource(deployments, "shop").Delete(r.Ctx, "web", foreground, client.GracePeriod(5*time.Second), client.IfUID(web.GetUid()), client.ByPlan(p.GetPlan())); err != nil {
		t.Error(err)
	}
}

// A plan covers all objects of the request. They are all deleted, or none is.
func TestPlanOfSeveral(t *testing.T) {
	t.Parallel()
	r := start(t)
	web, api := r.Create(deployments, "shop", named("web")), r.Create(deployments, "shop", named("api"))
	r.Create(pods, "shop", named("shared", web, api))
	if c := r.plan("web").GetCounts(); c.GetRemoved() != 1 || c.GetStripped() != 1 {
		t.Errorf("of one: %v", c)
	}
	both := r.plan("web", "api")
	if c := both.GetCounts(); c.GetRemoved() != 3 {
		t.Errorf("of both: %v", c)
	}
	if _, err := r.Resource(deployments, "shop").DeleteBatch(r.Ctx, []string{"web"}, foreground, client.ByPlan(both.GetPlan())); !errors.Is(err, client.ErrConflict) {
		t.Errorf("one, with the plan of both: %v", err)
	}
	if _, err := r.Resource(deployments, "shop").DeleteBatch(r.Ctx, []string{"web", "api"}, foreground, client.ByPlan(both.GetPlan())); err != nil {
		t.Error(err)
	}
	r.Gone(pods, "shop", "shared")
}

func TestPlanRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, err := r.Resource(deployments, "shop").Plan(r.Ctx, []string{"nope"})
	if !errors.Is(err, client.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
	_, err = r.Resource(deployments, "shop").Plan(r.Ctx, nil)
	if !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("nothing: %v", err)
	}
	r.Create(deployments, "shop", named("web"))
	_, err = r.Resource(deployments, "shop").DeleteBatch(r.Ctx, []string{"web"}, client.ByPlan("nonsense"))
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
	r := startWith(t, allinone.Config{Graph: func(c *graph.Config) { c.PlanLimit = n }})
	web := r.Create(deployments, "shop", named("web"))
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
	_, err := r.Resource(deployments, "shop").DeleteBatch(r.Ctx, []string{"web"}, foreground, client.ByPlan(p.GetPlan()))
	var e *client.Error
	if !asError(err, &e) || e.Reason != client.ErrRequestEntityTooLarge {
		t.Fatalf("the writer was asked to plan %d objects: %v", n, err)
	}
	contains(t, "the refusal", e.Message, "400 objects", "nothing was deleted")
	if m := r.Get(deployments, "shop", "web").GetMetadata(); m.GetDeletionTimestamp() != nil {
		t.Errorf("it was done all the same: %v", m)
	}
}
