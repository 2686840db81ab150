package lifecycle_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// TestCheckedIsDecidedAgain: a command that does not fit into a commit is
// decided once more in the next, by the same check.
func TestCheckedIsDecidedAgain(t *testing.T) {
	t.Parallel()
	owner := &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "Pod", Name: "o", Uid: "01890a5d-ac96-774b-bcce-b302099a8057"}
	c := lifecycle.Check(&coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
		Name: "a", OwnerReferences: []*coppicev1.OwnerReference{owner, owner}, Finalizers: []string{"plain"},
	}})
	r := lifecycletest.New()
	at := lifecycle.Key{Kind: r.Kinds().Of("", "Pod"), Namespace: "default"}
	var warnings [][]string
	for range 2 {
		out, err := lifecycle.CreateChecked(r.Context(), at, &c)
		must.Succeed(t, err)
		if n := out.Events[0].Object.Node; len(n.Owners) != 1 || n.APIVersion != "v1" {
			t.Errorf("the node is %+v", n)
		}
		warnings = append(warnings, out.Warnings)
	}
	if len(warnings[0]) != 3 || !reflect.DeepEqual(warnings[0], warnings[1]) {
		t.Errorf("the warnings are %q", warnings)
	}
}

// TestCheckFindsEverything: one refusal has the causes that Check finds and those that
// Create finds.
func TestCheckFindsEverything(t *testing.T) {
	t.Parallel()
	r := lifecycletest.New()
	at := lifecycle.Key{Kind: r.Kinds().Of("", "Pod"), Namespace: "Default"}
	_, err := lifecycle.Create(r.Context(), at, &coppicev1.Object{Spec: []byte("{"), Metadata: &coppicev1.ObjectMeta{
		Name: "a/b", Labels: map[string]string{"z!": "x", "a": "!"},
		OwnerReferences: []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "Pod", Name: "o", Uid: "!"}},
	}})
	if err == nil || !errors.Is(err, api.ErrInvalid) {
		t.Fatalf("Create = %v", err)
	}
	var fields []string
	for _, c := range err.Causes {
		fields = append(fields, c.Field)
	}
	want := []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.labels", "metadata.ownerReferences[0].uid", "spec"}
	if !reflect.DeepEqual(fields, want) {
		t.Errorf("the causes are %q, want %q", fields, want)
	}
}

// counts counts the nodes and bodies that are read.
type counts struct {
	lifecycle.View
	read   map[uid.UID]int
	bodies int
}

func (c *counts) Body(n *lifecycle.Node) *coppicev1.Body {
	c.bodies++
	return c.View.Body(n)
}

func (c *counts) Node(u uid.UID) *lifecycle.Node {
	c.read[u]++
	return c.View.Node(u)
}

// TestOwnersThatStayAreNotRead: an update that adds no owner does not read those that the object has.
func TestOwnersThatStayAreNotRead(t *testing.T) {
	t.Parallel()
	r := lifecycletest.New()
	at := lifecycle.Key{Kind: r.Kinds().Of("", "Pod"), Namespace: "default"}
	create := func(m *coppicev1.ObjectMeta) *lifecycle.Node {
		out, err := lifecycle.Create(r.Context(), at, &coppicev1.Object{Metadata: m})
		must.Succeed(t, err)
		r.Apply(out.Events)
		return r.Node(out.Events[0].UID)
	}
	owner := create(&coppicev1.ObjectMeta{Name: "owner"})
	m := &coppicev1.ObjectMeta{Name: "a", OwnerReferences: []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "Pod", Name: "owner", Uid: owner.UID.String()}}}
	create(m)
	m.Labels = map[string]string{"a": "b"}
	ctx := r.Context()
	v := &counts{View: r, read: map[uid.UID]int{}}
	ctx.View = v
	if _, err := lifecycle.Update(ctx, at, &coppicev1.Object{Metadata: m}); err != nil || v.read[owner.UID] != 0 {
		t.Errorf("the owner is read %d times, %v", v.read[owner.UID], err)
	}
}

// TestLongListsAreNotMerged: the writer does not merge the lists of a manifest that are longer than those of an
// object. A request has room for millions of elements, and other commands would wait.
func TestLongListsAreNotMerged(t *testing.T) {
	t.Parallel()
	r := lifecycletest.New()
	at := lifecycle.Key{Kind: r.Kinds().Of("", "Pod"), Namespace: "default"}
	imported(t, r, at)
	for field, m := range map[string]*coppicev1.ObjectMeta{
		"metadata.ownerReferences": {OwnerReferences: slices.Repeat([]*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "Pod", Name: "o", Uid: "o"}}, 1001)},
		"metadata.uses":            {Uses: slices.Repeat([]*coppicev1.Use{{Kind: "Secret", Name: "s"}}, lifecycle.MaxUses+1)},
		"metadata.finalizers":      {Finalizers: slices.Repeat([]string{"example.com/f"}, 1001)},
	} {
		m.Name = "a"
		ctx := r.Context()
		v := &counts{View: r, read: map[uid.UID]int{}}
		ctx.View = v
		_, err := lifecycle.Apply(ctx, at, &coppicev1.Object{Metadata: m})
		if err == nil || !errors.Is(err, api.ErrInvalid) || len(err.Causes) != 1 || err.Causes[0].Field != field || v.bodies != 0 {
			t.Errorf("%s: %v, after %d bodies were read", field, err, v.bodies)
		}
	}
}
