package api_test

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/scanner"
)

// own creates an object with owners whose deletion it blocks.
func (r *realm) own(resource client.Resource, namespace, name string, owners ...*coppicev1.Object) {
	r.TB.Helper()
	o := r.Get(resource, namespace, name)
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true)))
	}
	if _, err := r.Resource(resource, namespace).Update(r.Ctx, o); err != nil {
		r.TB.Fatal(err)
	}
}

// A14, X08: all objects of a cycle are deleted when one is deleted in the foreground. If one
// of them is blocked, those that wait for it continue to wait, also an owner outside of the
// cycle.
func TestCycle(t *testing.T) {
	t.Parallel()
	r := start(t)
	outside := r.Create(pods, "shop", named("outside"))
	a := r.Create(pods, "shop", named("a"))
	b := r.Create(pods, "shop", named("b"))
	c := named("c")
	c.Metadata.Finalizers = []string{"example.com/x"}
	c = r.Create(pods, "shop", c)
	r.own(pods, "shop", "a", c)
	r.own(pods, "shop", "b", a)
	r.own(pods, "shop", "c", b, outside)
	// c is deleted first: as long as it is not being deleted, a solid owner keeps it, and
	// its reference to a waiting owner is removed.
	r.delete(pods, "shop", "c", "Foreground")
	r.delete(pods, "shop", "outside", "Foreground")
	r.WaitFor("the cycle to be broken", func() bool {
		return slices.Equal(r.Get(pods, "shop", "c").GetMetadata().GetFinalizers(), []string{"example.com/x"})
	})
	// The owners that wait for c, inside and outside of the cycle, still wait.
	for _, name := range []string{"a", "b", "outside"} {
		if o := r.Get(pods, "shop", name); o.GetMetadata().GetDeletionTimestamp() == nil {
			t.Errorf("%s is %v", name, o)
		}
	}
	if _, err := r.Resource(pods, "shop").RemoveFinalizer(r.Ctx, "c", "example.com/x", client.Note("by hand")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "outside"} {
		r.Gone(pods, "shop", name)
	}
}

// X06, L5: an unreachable cycle is kept and reported, or collected with its dependents, as
// the realm settings say.
func TestUnreachableCycle(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"report", "collect"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := startWith(t, allinone.Config{
				Scanner: func(c *scanner.Config) { c.Interval = 50 * time.Millisecond },
			})
			options := &coppicev1.Object{
				Metadata: &coppicev1.ObjectMeta{Name: lifecycle.SettingsName}, Spec: []byte(`{"unreachableCycles":"` + policy + `"}`),
			}
			r.Create(client.Resource{Group: lifecycle.Group, Plural: "realms"}, "", options)
			root := r.Create(pods, "shop", named("root"))
			a := r.Create(pods, "shop", named("a", root))
			b := r.Create(pods, "shop", named("b", a))
			r.Create(pods, "shop", named("below", b))
			r.own(pods, "shop", "a", b)
			r.delete(pods, "shop", "root", "Background")
			if policy == "collect" {
				for _, name := range []string{"a", "b", "below"} {
					r.Gone(pods, "shop", name)
				}
				return
			}
			r.WaitFor("a warning", func() bool {
				found, err := r.Warnings(r.Ctx, a.GetMetadata().GetUid())
				must.Succeed(t, err)
				return slices.ContainsFunc(found, func(w client.Warning) bool { return w.Reason == lifecycle.WarnUnreachable })
			})
			for _, name := range []string{"a", "b", "below"} {
				if o := r.Get(pods, "shop", name); o.GetMetadata().GetDeletionTimestamp() != nil {
					t.Errorf("%s is being deleted", name)
				}
			}
		})
	}
}
