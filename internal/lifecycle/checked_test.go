package lifecycle_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err == nil || !errors.Is(err, lifecycle.ReasonInvalid) {
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

// counts counts the nodes that are read.
type counts struct {
	lifecycle.View
	read map[uid.UID]int
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
		if err != nil {
			t.Fatal(err)
		}
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
