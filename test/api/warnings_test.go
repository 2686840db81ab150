package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/scanner"
)

// Warnings report what an operator must look at. The scanner finds the problems that no
// event reports, and work that has waited for a long time.
func TestWarnings(t *testing.T) {
	t.Parallel()
	r, stop := startWith(t, allinone.Config{
		Dir:   t.TempDir(),
		Graph: func(c *graph.Config) { c.StuckAfter = time.Millisecond },
		Scanner: func(c *scanner.Config) {
			c.Interval, c.RepublishInterval, c.RepublishAge = 50*time.Millisecond, 50*time.Millisecond, time.Millisecond
		},
	})
	t.Cleanup(stop)
	owner := r.create(deployments, "shop", named("web"))
	unheard := named("unheard", owner)
	unheard.Metadata.OwnerReferences[0].Kind = "Unheard"
	unheard = r.create(pods, "shop", unheard)
	foreign := named("foreign", owner)
	foreign.Metadata.Finalizers = []string{"example.com/unserved"}
	foreign = r.create(pods, "elsewhere", foreign)
	fine := r.create(pods, "shop", named("fine", owner))

	for _, want := range []struct{ uid, reason, says string }{
		// A16, A18: an owner of a kind that is not registered.
		{unheard.GetMetadata().GetUid(), lifecycle.WarnUnresolvable, `owner reference to Unheard "web": the kind apps/Unheard is not registered in this realm`},
		// A10.3, A16, A18: an owner in another namespace.
		{foreign.GetMetadata().GetUid(), lifecycle.WarnInvalidNamespace, `the uid belongs to deployments.apps "web" in namespace "shop"`},
		{foreign.GetMetadata().GetUid(), lifecycle.WarnStuck, "by example.com/unserved (no consumer)"},
	} {
		testkit.WaitFor(t, r.ctx, want.reason, func() bool {
			found, err := r.Warnings(r.ctx, want.uid)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(found, func(w client.Warning) bool {
				return w.Reason == want.reason && w.UID == want.uid && strings.Contains(w.Message, want.says)
			})
		})
	}
	all, err := r.Warnings(r.ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || slices.ContainsFunc(all, func(w client.Warning) bool { return w.UID == fine.GetMetadata().GetUid() }) {
		t.Errorf("all warnings are %v, want those three", all)
	}
}
