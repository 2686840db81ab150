package api_test

import (
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// own makes an object owned by others, which it holds up.
func (r *realm) own(resource client.Resource, namespace, name string, owners ...*coppicev1.Object) {
	r.t.Helper()
	o := r.get(resource, namespace, name)
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.OwnerReferenceOf(owner, false, true))
	}
	if _, err := r.Objects(resource, namespace).Update(r.ctx, o, client.WriteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// Objects that own each other in a circle go when one is deleted in the
// foreground. Where one of them is held, those that wait for it wait on, also
// an owner outside of the circle.
func TestCircle(t *testing.T) {
	t.Parallel()
	r := start(t)
	outside := r.create(pods, "shop", named("outside"))
	a := r.create(pods, "shop", named("a"))
	b := r.create(pods, "shop", named("b"))
	c := named("c")
	c.Metadata.Finalizers = []string{"example.com/x"}
	c = r.create(pods, "shop", c)
	r.own(pods, "shop", "a", c)
	r.own(pods, "shop", "b", a)
	r.own(pods, "shop", "c", b, outside)
	r.delete(pods, "shop", "outside", "Foreground")
	r.delete(pods, "shop", "c", "Foreground")
	testkit.WaitFor(t, r.ctx, "the circle to be broken", func() bool {
		return slices.Equal(r.get(pods, "shop", "c").GetMetadata().GetFinalizers(), []string{"example.com/x"})
	})
	// Whoever waits for c, in the circle or outside of it, waits on.
	for _, name := range []string{"a", "b", "outside"} {
		if o := r.get(pods, "shop", name); o.GetMetadata().GetDeletionTimestamp() == nil {
			t.Errorf("%s is %v", name, o)
		}
	}
	if _, err := r.Objects(pods, "shop").RemoveFinalizer(r.ctx, "c", "example.com/x", "by hand", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "outside"} {
		r.gone(pods, "shop", name)
	}
}
