package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/scanner"
)

// Warnings report what an operator must look at. The scanner finds the problems that no
// event reports, and work that has waited for a long time.
func TestWarnings(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{
		Graph: func(c *graph.Config) { c.StuckAfter = time.Millisecond },
		Scanner: func(c *scanner.Config) {
			c.Interval, c.RepublishInterval, c.RepublishAge = 50*time.Millisecond, 50*time.Millisecond, time.Millisecond
		},
	})
	owner := r.Create(deployments, "shop", named("web"))
	unheard := named("unheard", owner)
	unheard.Metadata.OwnerReferences[0].Kind = "Unheard"
	unheard = r.Create(pods, "shop", unheard)
	foreign := named("foreign", owner)
	foreign.Metadata.Finalizers = []string{"example.com/unserved"}
	foreign = r.Create(pods, "elsewhere", foreign)
	fine := r.Create(pods, "shop", named("fine", owner))

	for _, want := range []struct{ uid, reason, says string }{
		// A16, A18: an owner of a kind that is not registered.
		{unheard.GetMetadata().GetUid(), lifecycle.WarnUnresolvable, `owner reference to Unheard "web": the kind apps/Unheard is not registered in this realm`},
		// A10.3, A16, A18: an owner in another namespace.
		{foreign.GetMetadata().GetUid(), lifecycle.WarnInvalidNamespace, `the uid belongs to deployments.apps "web" in namespace "shop"`},
		{foreign.GetMetadata().GetUid(), lifecycle.WarnStuck, "by example.com/unserved (no consumer)"},
	} {
		r.WaitFor(want.reason, func() bool {
			found, err := r.Warnings(r.Ctx, want.uid)
			must.Succeed(t, err)
			return slices.ContainsFunc(found, func(w client.Warning) bool {
				return w.Reason == want.reason && w.UID == want.uid && strings.Contains(w.Message, want.says)
			})
		})
	}
	all, err := r.Warnings(r.Ctx, "")
	must.Succeed(t, err)
	if len(all) != 3 || slices.ContainsFunc(all, func(w client.Warning) bool { return w.UID == fine.GetMetadata().GetUid() }) {
		t.Errorf("all warnings are %v, want those three", all)
	}
}

// The reply to a write names the owners that it adds and that do not exist, and with StrictOwners refuses the object
// alone, or the whole request if that is atomic.
func TestOwnersThatDoNotExist(t *testing.T) {
	t.Parallel()
	r := start(t)
	of := r.Resource(pods, "shop")
	owner := r.Create(deployments, "shop", named("web"))
	lost := func(name string) *coppicev1.Object {
		o := named(name, owner)
		o.Metadata.OwnerReferences[0].Uid = "11111111-2222-3333-4444-555555555555"
		return o
	}
	says := fmt.Sprintf(`no such owner: Deployment.apps "web" with uid 11111111-2222-3333-4444-555555555555 (the object with this name has uid %s); `, owner.GetMetadata().GetUid())

	for i, opts := range [][]client.WriteOption{{}, {client.DryRun(true)}} {
		results, err := of.CreateBatch(r.Ctx, []*coppicev1.Object{named(fmt.Sprint("fine-", i), owner), lost(fmt.Sprint("lost-", i))}, opts...)
		must.Succeed(t, err)
		if len(results[0].Warnings) != 0 {
			t.Errorf("an object with its owner: the warnings are %q", results[0].Warnings)
		}
		if w := results[1].Warnings; len(w) != 1 || !strings.Contains(w[0], says) || !strings.Contains(w[0], "no owner keeps the object, which will be deleted; to keep the uids of an export, use the verb import (coppice import)") {
			t.Errorf("an object without its owner: the warnings are %q", w)
		}
	}
	r.Gone(pods, "shop", "lost-0")

	results, err := of.ApplyBatch(r.Ctx, []*coppicev1.Object{lost("strict"), named("kept", owner)}, client.StrictOwners(true))
	must.Succeed(t, err)
	if err := results[0].Err; !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), says) {
		t.Errorf("StrictOwners: %v", err)
	}
	if results[1].Err != nil {
		t.Errorf("StrictOwners refuses an object with its owner: %v", results[1].Err)
	}
	_, err = of.CreateBatch(r.Ctx, []*coppicev1.Object{named("none", owner), lost("strict")}, client.StrictOwners(true), client.Atomic(true))
	if !errors.Is(err, client.ErrInvalid) {
		t.Errorf("an atomic batch with StrictOwners: %v", err)
	}
	for name, write := range map[string]func(*coppicev1.Object) error{
		"create": func(o *coppicev1.Object) error {
			_, err := of.Create(r.Ctx, o, client.StrictOwners(true))
			return err
		},
		"patch": func(o *coppicev1.Object) error {
			uid := o.GetMetadata().GetOwnerReferences()[0].GetUid()
			_, err := of.Patch(r.Ctx, "kept", fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":%q}]}}`, uid),
				client.StrictOwners(true))
			return err
		},
	} {
		if err := write(lost("strict")); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s with StrictOwners: %v", name, err)
		}
	}
	for _, name := range []string{"none", "strict"} {
		if _, err := of.Get(r.Ctx, name); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: %v, want that it was not created", name, err)
		}
	}
}

// A reply that has no room for the names of missing owners still has a warning for each object.
func TestOwnersThatAReplyHasNoRoomFor(t *testing.T) {
	t.Parallel()
	r := start(t)
	list := make([]*coppicev1.Object, 2000)
	for i := range list {
		list[i] = named(fmt.Sprint("lost-", i))
		for k := range 10 {
			list[i].Metadata.OwnerReferences = append(list[i].Metadata.OwnerReferences, &coppicev1.OwnerReference{
				ApiVersion: "v1", Kind: "Pod", Name: fmt.Sprintf("%s%d", strings.Repeat("x", 240), k), Uid: uuid.NewString(),
			})
		}
	}
	results, err := r.Resource(pods, "shop").CreateBatch(r.Ctx, list)
	must.Succeed(t, err)
	short := 0
	for i, result := range results {
		if w := result.Warnings; result.Err != nil || len(w) != 1 || !lifecycle.OwnersWarned(w[0]) {
			t.Fatalf("object %d: %v, the warnings are %q", i, result.Err, w)
		}
		if result.Warnings[0] == lifecycle.OwnersUnnamed {
			short++
		}
	}
	if short == 0 {
		t.Error("the reply has all names: the batch is too small for this test")
	}
}
