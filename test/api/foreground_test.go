package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/scanner"
)

// loosely returns an object whose references do not block.
func loosely(name string, owners ...*coppicev1.Object) *coppicev1.Object {
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}}
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner))
	}
	return o
}

// without configures a scanner that never scans: no deletion may depend on the scanner.
func withoutScanner(c *scanner.Config) { c.Interval, c.RepublishInterval = time.Hour, time.Hour }

// A13: a foreground deletion of an owner also deletes dependents that do not block it,
// even if another finalizer blocks the owner: if the owner lost foregroundDeletion
// before they are marked, it would own them as before. Dependents of such a dependent
// are deleted in the foreground as well, and a dependent that another owner keeps loses
// its reference to the owner. Nothing of this waits for the scanner.
func TestForegroundTakesAll(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Scanner: withoutScanner})
	const families = 40
	other := r.Create(deployments, "shop", named("other"))
	for i := range families {
		owner := named(fmt.Sprintf("owner-%d", i))
		owner.Metadata.Finalizers = []string{"example.com/hold"}
		owner = r.Create(deployments, "shop", owner)
		middle := loosely(fmt.Sprintf("middle-%d", i), owner)
		middle.Metadata.Finalizers = []string{"example.com/hold"}
		middle = r.Create(replicasets, "shop", middle)
		r.Create(pods, "shop", loosely(fmt.Sprintf("leaf-%d", i), middle))
		r.Create(pods, "shop", loosely(fmt.Sprintf("shared-%d", i), owner, other))
	}
	for i := range families {
		r.delete(deployments, "shop", fmt.Sprintf("owner-%d", i), "Foreground")
	}
	for i := range families {
		r.Gone(pods, "shop", fmt.Sprintf("leaf-%d", i))
		for _, blocked := range []struct {
			resource client.Resource
			name     string
		}{{deployments, "owner"}, {replicasets, "middle"}} {
			name := fmt.Sprintf("%s-%d", blocked.name, i)
			r.WaitFor(name+" to be finished", func() bool {
				m := r.Get(blocked.resource, "shop", name).GetMetadata()
				return m.GetDeletionTimestamp() != nil && !slices.Contains(m.GetFinalizers(), lifecycle.FinalizerForeground)
			})
		}
		if refs := r.Get(pods, "shop", fmt.Sprintf("shared-%d", i)).GetMetadata().GetOwnerReferences(); len(refs) != 1 || refs[0].GetName() != "other" {
			t.Errorf("shared-%d has owners %v", i, refs)
		}
	}
}

// unheard returns a dependent of an unknown owner and of other owners.
func unheard(o *coppicev1.Object) *coppicev1.Object {
	o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{
		ApiVersion: "example.com/v1", Kind: "Unheard", Name: "x", Uid: "unheard-x",
	})
	return o
}

// A13, S2: what only an unknown owner keeps does not delay an owner, however the
// last of the other dependents stops to count: collected, stripped, or given other
// owners.
func TestForegroundUnknown(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(r *realm, owner, other *coppicev1.Object){
		"alone":     func(*realm, *coppicev1.Object, *coppicev1.Object) {},
		"collected": func(r *realm, owner, _ *coppicev1.Object) { r.Create(pods, "shop", loosely("last", owner)) },
		"stripped":  func(r *realm, owner, other *coppicev1.Object) { r.Create(pods, "shop", loosely("last", owner, other)) },
		"re-parented": func(r *realm, owner, other *coppicev1.Object) {
			blocking := unheard(named("last", owner))
			created := r.Create(pods, "shop", blocking)
			r.delete(deployments, "shop", "owner", "Foreground")
			created.Metadata.OwnerReferences = loosely("last", other).Metadata.OwnerReferences
			created.Metadata.ResourceVersion = 0
			if _, err := r.Resource(pods, "shop").Update(r.Ctx, created); err != nil {
				r.TB.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startWith(t, allinone.Config{Scanner: withoutScanner})
			owner := r.Create(deployments, "shop", named("owner"))
			other := r.Create(deployments, "shop", named("other"))
			r.Create(pods, "shop", unheard(loosely("kept", owner)))
			last(r, owner, other)
			if name != "re-parented" { // which has deleted it
				r.delete(deployments, "shop", "owner", "Foreground")
			}
			r.Gone(deployments, "shop", "owner")
			if refs := r.Get(pods, "shop", "kept").GetMetadata().GetOwnerReferences(); len(refs) != 2 {
				t.Errorf("what is kept has owners %v", refs)
			}
		})
	}
}

// A13: more dependents than are examined that only unknown owners keep have an owner
// wait until fewer remain. The plan shows it, and a warning says so.
func TestForegroundCrowded(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{
		Scanner: withoutScanner,
		Graph:   func(c *graph.Config) { c.CrowdedAfter = time.Millisecond },
	})
	owner := r.Create(deployments, "shop", named("owner"))
	const batch = 2000
	for i := 0; i <= lifecycle.MaxExamined; i += batch {
		var list []*coppicev1.Object
		for k := i; k < min(i+batch, lifecycle.MaxExamined+1); k++ {
			list = append(list, unheard(loosely(fmt.Sprintf("kept-%d", k), owner)))
		}
		if _, err := r.Resource(pods, "shop").CreateBatch(r.Ctx, list); err != nil {
			t.Fatal(err)
		}
	}
	options := client.Foreground
	p, err := r.Resource(deployments, "shop").Plan(r.Ctx, []string{"owner"}, options, client.MinRevision(r.Revision()))
	must.Succeed(t, err)
	i := slices.IndexFunc(p.GetObjects(), func(o *coppicev1.PlannedObject) bool { return o.GetName() == "owner" })
	if o := p.GetObjects()[i]; o.GetOutcome() != coppicev1.PlanOutcome_PLAN_OUTCOME_BLOCKED ||
		!slices.ContainsFunc(o.GetBlockers(), func(h *coppicev1.PlanBlocker) bool {
			return h.GetType() == coppicev1.PlanBlocker_TYPE_UNEXAMINED && h.GetCount() == lifecycle.MaxExamined+1
		}) {
		t.Errorf("the plan of the owner is %v", o)
	}
	said, err := r.Conn().SubscribeSync(bus.WarningFilter(bus.DefaultRealm, owner.GetMetadata().GetUid()))
	if err == nil {
		err = r.Conn().Flush()
	}
	must.Succeed(t, err)
	r.delete(deployments, "shop", "owner", "Foreground")
	m, err := said.NextMsg(testkit.Timeout)
	if err != nil {
		t.Fatalf("no warning: %v", err)
	}
	if w := string(m.Data); !strings.Contains(w, lifecycle.WarnCrowded) || !strings.Contains(w, "20001 of its dependents") {
		t.Errorf("the warning is %s", w)
	}
	r.Get(deployments, "shop", "owner")
	r.delete(pods, "shop", "kept-0", "")
	r.Gone(deployments, "shop", "owner")
}
