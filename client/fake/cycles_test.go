package fake_test

import (
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// own adds a reference to owner to the object with the name.
func own(t *testing.T, c client.Interface, name string, owner *client.Object) {
	t.Helper()
	objects := c.Resource(configMaps, "shop")
	o, err := objects.Get(t.Context(), name)
	must.Succeed(t, err)
	must.Succeed(t, client.SetOwnerReference(owner, o))
	if _, err := objects.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// cycle creates two ConfigMaps that own each other. owner owns the first.
func cycle(t *testing.T, c client.Interface, first, second string, owner *client.Object) {
	t.Helper()
	o := named(first)
	must.Succeed(t, client.SetOwnerReference(owner, o))
	a, b := created(t, c, configMaps, o), created(t, c, configMaps, named(second))
	own(t, c, second, a)
	own(t, c, first, b)
}

// Unreachable cycles stay unless the realm setting is collect. Then those that exist are
// collected, and each later one in the call that makes it unreachable. A plan has none of
// them (A14, X06, L5).
func TestUnreachableCycles(t *testing.T) {
	t.Parallel()
	c := fake.New()
	objects := c.Resource(configMaps, "shop")
	exist := func(want bool, names ...string) {
		t.Helper()
		for _, name := range names {
			_, err := objects.Get(t.Context(), name)
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				t.Fatal(err)
			}
			if got := err == nil; got != want {
				t.Errorf("%s exists: %t", name, got)
			}
		}
	}
	remove := func(name string) {
		t.Helper()
		if _, err := objects.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	cycle(t, c, "a", "b", created(t, c, configMaps, named("owner")))
	remove("owner")
	exist(true, "a", "b")

	cycle(t, c, "x", "y", created(t, c, configMaps, named("other")))
	if _, err := c.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Create(t.Context(), &client.Object{
		Metadata: &client.ObjectMeta{Name: "settings"}, Spec: []byte(`{"unreachableCycles":"collect"}`),
	}); err != nil {
		t.Fatal(err)
	}
	exist(false, "a", "b")
	exist(true, "x", "y", "other")

	plan, err := objects.Plan(t.Context(), []string{"other"})
	must.Succeed(t, err)
	for _, o := range plan.GetObjects() {
		if removed := o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED; removed != (o.GetName() == "other") {
			t.Errorf("the plan has %s as %s", o.GetName(), o.GetOutcome())
		}
	}
	remove("other")
	exist(false, "x", "y", "other")
}
