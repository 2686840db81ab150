package state_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

func gadgets(plural string) lifecycle.KindSpec {
	return lifecycle.KindSpec{
		Group: "example.com", Kind: "Gadget", Plural: plural, Scope: lifecycle.ScopeNamespaced,
		Versions: []lifecycle.KindVersion{{Name: "v1"}},
	}
}

// A kind may be withdrawn, and registered again with another plural, in the
// commit that removes its last object: nothing of the first is left behind.
func TestWithdrawnAndBack(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Register(gadgets("gadgets"))
	r.Create("gadgets/a", nil)
	remove := func(target string) statetest.Decide {
		k := r.Key(target)
		return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Delete(ctx, k, "", nil)
		}
	}
	register := func(plural, u string) statetest.Decide {
		return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			c := *ctx
			c.NewUID = func() uid.UID { return uid.MustParse(u) }
			return lifecycle.Create(&c, lifecycle.Key{Kind: ctx.Kinds().Of(lifecycle.Group, "Kind")}, lifecycletest.Registration(gadgets(plural)))
		}
	}
	r.Must(remove("gadgets/a"), remove("kinds/gadgets.example.com"), register("gizmos", "second"))
	r.Create("gizmos/a", nil)
	r.Must(remove("gizmos/a"), remove("kinds/gizmos.example.com"), register("gadgets", "third"))
	snap := r.Snapshot()
	defer snap.Close()
	if left := snap.AnyOf(snap.Kinds().Resource("gadgets.example.com")); left != "" {
		t.Errorf("%s is left of a kind that was withdrawn", left)
	}
}
