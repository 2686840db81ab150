package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// TestKept: the commit that finishes an owner verifies which of its dependents are
// said to be kept by unknown owners, and that they are all that are not terminating.
//
// A13: an owner is finished only if no dependent delays it, whatever was found before.
func TestKept(t *testing.T) {
	t.Parallel()
	r := lifecycletest.New()
	create := func(name string, finalizers []string, owners ...string) uid.UID {
		meta := &coppicev1.ObjectMeta{Name: name, Finalizers: finalizers}
		for _, o := range owners {
			ref := &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "Pod", Name: "owner", Uid: o}
			if o == "unheard" {
				ref.ApiVersion, ref.Kind = "example.com/v1", "Unheard"
			}
			meta.OwnerReferences = append(meta.OwnerReferences, ref)
		}
		out, err := lifecycle.Create(r.Context(), podKey(r, ""), &coppicev1.Object{Metadata: meta})
		must.Succeed(t, err)
		r.Apply(out.Events)
		return out.Events[0].UID
	}
	owner := create("owner", nil)
	kept := create("kept", nil, owner.String(), "unheard")
	also := create("also", nil, owner.String(), "unheard")
	goes := create("goes", nil, owner.String())
	foreign := create("foreign", nil, "unheard")
	going := create("going", []string{custom}, owner.String())
	for name, u := range map[string]uid.UID{"owner": owner, "going": going} {
		out, err := lifecycle.Delete(r.Context(), podKey(r, name), "", &coppicev1.DeleteOptions{PropagationPolicy: lifecycle.Foreground})
		if err != nil {
			t.Fatalf("%s: %v", u, err)
		}
		r.Apply(out.Events)
	}
	finishes := func(found ...uid.UID) bool {
		return len(lifecycle.Finish(r.Context(), r.Node(owner), lifecycle.FinalizerForeground, found)) > 0
	}
	for _, found := range [][]uid.UID{nil, {kept}, {kept, also}, {kept, also, goes}, {kept, also, foreign}, {kept, also, going}, {kept, also, kept}} {
		if finishes(found...) {
			t.Errorf("the owner is finished with %v, while %s is to be collected", found, goes)
		}
	}
	r.Apply(lifecycle.Collect(r.Context(), r.Node(goes)))
	for _, found := range [][]uid.UID{nil, {kept}, {kept, kept}, {kept, foreign}, {kept, going}, {kept, goes}} {
		if finishes(found...) {
			t.Errorf("the owner is finished with %v, without a look at %s", found, also)
		}
	}
	if !finishes(kept, also) || !finishes(also, goes, kept, foreign) {
		t.Error("the owner is not finished, and only an unknown owner keeps its dependents")
	}
	var found []uid.UID
	for i := range 30 {
		found = append(found, create(fmt.Sprintf("more-%d", i), nil, owner.String(), "unheard"))
	}
	if finishes(kept, also) || !finishes(append(found, kept, also)...) {
		t.Error("dependents that came later do not count")
	}
}
