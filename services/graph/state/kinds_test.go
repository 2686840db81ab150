package state_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

func gadgets(plural string) lifecycle.KindSpec {
	return lifecycle.KindSpec{
		Group: "example.com", Kind: "Gadget", Plural: plural, Scope: lifecycle.ScopeNamespaced,
		Versions: []lifecycle.KindVersion{{Name: "v1"}},
	}
}

// A kind may be withdrawn, and registered again with another plural, in the
// commit that removes its last object: nothing of the first is left behind, also
// where the commits before are not in the state yet.
func TestWithdrawnAndBack(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Register(gadgets("gadgets"))
	gadget := r.Key("gadgets/a")
	r.Create("gadgets/a", nil)
	remove := func(kind, name string) statetest.Decide {
		return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			k := gadget
			k.Kind, k.Name = ctx.Kinds().Resource(kind), name
			if name != gadget.Name {
				k.Namespace = ""
			}
			return lifecycle.Delete(ctx, k, "", nil)
		}
	}
	named := func(ctx *lifecycle.Context, u string) *lifecycle.Context {
		c := *ctx
		c.NewUID = func() uid.UID { return uid.MustParse(u) }
		return &c
	}
	register := func(plural, u string) statetest.Decide {
		return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Create(named(ctx, u), lifecycle.Key{Kind: ctx.Kinds().Of(lifecycle.Group, "Kind")}, lifecycletest.Registration(gadgets(plural)))
		}
	}
	var gizmos *lifecycle.Kind
	create := func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		k := gadget
		k.Kind = ctx.Kinds().Resource("gizmos.example.com")
		gizmos = k.Kind
		return lifecycle.Create(named(ctx, "other"), k, &coppicev1.Object{
			ApiVersion: k.Kind.APIVersion(), Kind: k.Kind.Kind, Metadata: &coppicev1.ObjectMeta{Name: k.Name, Namespace: k.Namespace},
		})
	}
	kinds := lifecycle.ResourceName(lifecycle.Group, "kinds")
	top, apply := r.Stack(
		[]statetest.Decide{remove("gadgets.example.com", "a"), remove(kinds, "gadgets.example.com"), register("gizmos", "second"), create},
		[]statetest.Decide{remove("gizmos.example.com", "a"), remove(kinds, "gizmos.example.com"), register("gadgets", "third")},
	)
	defer top.Drop()
	apply()
	snap := r.Snapshot()
	defer snap.Close()
	for _, k := range []*lifecycle.Kind{snap.Kinds().Resource("gadgets.example.com"), gizmos} {
		if left := snap.AnyOf(k, ""); left != "" {
			t.Errorf("%s is left of a kind that was withdrawn", left)
		}
	}
}

// A Tx on top of commits that are not written to the state yet has the changes of all of
// them.
func TestStacked(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	pods := r.Key("pods/a").Kind
	top, apply := r.Stack(
		[]statetest.Decide{r.Importation("pods/a", "move", nil)},
		[]statetest.Decide{r.Creation("services/b", nil)},
	)
	see := func() {
		t.Helper()
		if got := top.AnyOf(pods, ""); got != "pods/a" {
			t.Errorf("of pods there is %q", got)
		}
		if top.Session("move").Expires == 0 {
			t.Error("the session is not open")
		}
	}
	see()
	apply()
	see()
	top = top.Next()
	see()
}
