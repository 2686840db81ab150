package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// TestManyClaims: where dependents say too many different things of one owner
// to look at each, they are evaluated in any case, and none is forgotten.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		r := lifecycletest.New()
		at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
		owner := uid.MustParse("owner")
		create := func(o *coppicev1.Object, decide func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error)) {
			out, err := decide(r.Context(), at, o)
			must.Succeed(t, err)
			r.Apply(out.Events)
		}
		if there {
			create(&coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "owner", Uid: owner.String()}},
				func(ctx *lifecycle.Context, at lifecycle.Key, o *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error) {
					return lifecycle.Import(ctx, at, "", o)
				})
		}
		for i := range 17 {
			if pending := lifecycle.PendingOf(r, owner, r.Node(owner)); i > 0 && pending.EvaluateAt != lifecycle.Never {
				t.Fatalf("%d claims: %+v, want never", i, pending)
			}
			create(&coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
				Name: fmt.Sprintf("dependent-%d", i),
				OwnerReferences: []*coppicev1.OwnerReference{
					{ApiVersion: "example.com/v1", Kind: fmt.Sprintf("Unheard%d", i), Name: "owner", Uid: owner.String()},
				},
			}}, lifecycle.Create)
		}
		if pending := lifecycle.PendingOf(r, owner, r.Node(owner)); pending != (lifecycle.Pending{Evaluate: true}) {
			t.Fatalf("17 claims: %+v, want to evaluate at once", pending)
		}
		if events := r.Settle(lifecycletest.InOrder); len(events) > 0 {
			t.Fatalf("kinds are not registered, and %+v", events)
		}
	}
}

// TestCoordinatesCannotHoldNUL: they are parts of keys, which NUL separates.
func TestCoordinatesCannotHoldNUL(t *testing.T) {
	t.Parallel()
	r := lifecycletest.New()
	at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
	_, err := lifecycle.Create(r.Context(), at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
		Name: "x", OwnerReferences: []*coppicev1.OwnerReference{{ApiVersion: "a\x00/v1", Kind: "K\x00", Name: "n\x00", Uid: "u"}},
	}})
	if err == nil || len(err.Causes) != 3 || !strings.Contains(err.Message, "NUL") {
		t.Fatalf("got %v, want three causes", err)
	}
	at.Namespace = "a\x00"
	if _, err := lifecycle.Create(r.Context(), at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "a\x00"}}); err == nil || len(err.Causes) != 2 {
		t.Fatalf("got %v, want two causes", err)
	}
}
