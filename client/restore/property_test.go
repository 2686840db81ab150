package restore_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/testkit/drawn"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// B5.1: the restoration of a cascade gives a graph that is isomorphic to the one before, survivors
// included, whatever the collector does during the restoration. -rapid.checks sets the number of
// draws of each part.
func TestRestoreIsInverse(t *testing.T) {
	t.Parallel()
	restored, back := 0, 0
	// With -short, three parts may restore nothing, or give no reference back; then there are more.
	for n := uint64(0); n < 3 || n < 30 && (restored == 0 || back == 0); n++ {
		drawn.Check(t, n, func(t *rapid.T) {
			w := newWorld(t)
			names := drawGraph(t, w)
			w.finish(memrealm.InOrder)
			var roots [][2]string
			for _, n := range names {
				if u := w.find(n[0], "shop", n[1]); u != "" && !w.Node(u).Protected() {
					roots = append(roots, n)
				}
			}
			if len(roots) == 0 {
				return
			}
			before := w.Clone()
			want := graph(before, w.resource)
			root := rapid.SampledFrom(roots).Draw(t, "root")
			policy := rapid.SampledFrom([]string{"", lifecycle.Background, lifecycle.Foreground, lifecycle.Orphan})
			revision := w.remove(root[0], "shop", root[1], policy.Draw(t, "policy"))
			if u := w.find(root[0], "shop", root[1]); u != "" && rapid.Bool().Draw(t, "again") {
				w.Round(memrealm.Shuffled(rapid.Uint64().Draw(t, "seed")))
				if w.Node(u) != nil {
					w.remove(root[0], "shop", root[1], policy.Draw(t, "policy"))
				}
			}
			w.finish(memrealm.Shuffled(rapid.Uint64().Draw(t, "seed")))

			c := w.cascade(revision)
			p := restore.Build(w.input(c, before, restore.Options{}))
			if slices.ContainsFunc(c.Members, func(m *restore.Member) bool { return m.Removed == 0 }) {
				if len(p.Refusals) == 0 { // it waits for a user or a dependent that stays
					t.Fatalf("a cascade is restored that is not finished")
				}
				return
			}
			if len(p.Refusals) > 0 {
				t.Fatalf("refused: %v\nbefore:\n%s\nafter:\n%s", p.Refusals, want, graph(w.Realm, w.resource))
			}
			restored, back = restored+len(p.Objects), back+len(p.Survivors)
			w.carryOut(p, func() { w.Settle(memrealm.InOrder) })
			w.Settle(memrealm.InOrder)
			if got := graph(w.Realm, w.resource); got != want {
				t.Fatalf("restored:\n%s\nwant:\n%s", got, want)
			}
		})
	}
	if !t.Failed() && !testing.Short() && (restored == 0 || back == 0) {
		t.Errorf("%d objects were restored, and %d got references back", restored, back)
	}
}

// drawGraph creates objects that own and use each other, and returns their resources and names.
func drawGraph(t *rapid.T, w *world) (names [][2]string) {
	resources := []string{"pods", "configmaps", "deployments.apps"}
	n := rapid.IntRange(2, 9).Draw(t, "objects")
	for i := range n {
		resource := rapid.SampledFrom(resources).Draw(t, "resource")
		o := &client.Object{
			Metadata: &client.ObjectMeta{Name: fmt.Sprintf("o%d", i), Namespace: "shop"},
			Spec:     fmt.Appendf(nil, `{"n":%d}`, i),
		}
		if rapid.Bool().Draw(t, "labelled") {
			o.Metadata.Labels = map[string]string{"app": fmt.Sprint(i)}
		}
		o.Metadata.Finalizers = rapid.SampledFrom([][]string{nil, nil, nil, {"example.com/a"}, {"example.com/a", "example.com/b"}, {"orphan"}, {"foregroundDeletion"}}).Draw(t, "finalizers")
		controlled := false
		for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, 3, rapid.ID).Draw(t, "owners") {
			if k >= i {
				continue
			}
			owner := names[k]
			r := client.NewOwnerReference(object(w.Realm, w.find(owner[0], "shop", owner[1])),
				client.WithBlockOwnerDeletion(rapid.Bool().Draw(t, "blocking")), client.WithController(!controlled && rapid.Bool().Draw(t, "controller")))
			controlled = controlled || r.GetController()
			o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, r)
		}
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "uses") == 0 {
			used := w.Node(w.find(names[i-1][0], "shop", names[i-1][1]))
			o.Metadata.Uses = []*coppicev1.Use{{Group: used.Group(), Kind: used.Kind, Name: used.Name}}
		}
		w.create(resource, o)
		names = append(names, [2]string{resource, o.Metadata.Name})
		if rapid.IntRange(0, 9).Draw(t, "protected") == 0 {
			w.do(lifecycle.Protect(w.Context(), w.key(resource, "shop", o.Metadata.Name), "ana", "production", nil))
		}
	}
	drawCycle(t, w, names)
	return names
}

// drawCycle has an object own one that it depends on, sometimes.
func drawCycle(t *rapid.T, w *world, names [][2]string) {
	if rapid.IntRange(0, 3).Draw(t, "cycle") != 0 {
		return
	}
	from, to := rapid.SampledFrom(names).Draw(t, "from"), rapid.SampledFrom(names).Draw(t, "to")
	if from == to {
		return
	}
	o := object(w.Realm, w.find(from[0], "shop", from[1]))
	owner := object(w.Realm, w.find(to[0], "shop", to[1]))
	o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true)))
	o.Metadata.ResourceVersion = 0
	w.do(lifecycle.Update(w.Context(), w.key(from[0], "shop", from[1]), o))
}
