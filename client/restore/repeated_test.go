package restore_test

import (
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
)

// interruption is a restoration of deployments.apps/web that can be planned again and again.
type interruption struct {
	*world
	plan func() *restore.Plan
	want string // the graph before the deletion
}

// remove deletes deployments.apps/web with its cascade.
func (i *interruption) remove() (revision uint64) {
	revision = i.world.remove("deployments.apps", "shop", "web", lifecycle.Background)
	i.finish(memrealm.InOrder)
	return revision
}

// interrupt deletes deployments.apps/web, and returns its restoration.
func interrupt(w *world) *interruption {
	before := w.Clone()
	i := &interruption{world: w, want: graph(before, w.resource)}
	revision := i.remove()
	i.plan = func() *restore.Plan { return restore.Build(w.input(w.cascade(revision), before, restore.Options{})) }
	return i
}

// begin restores n objects, as if it failed then, and calls meanwhile after each.
func (i *interruption) begin(n int, meanwhile func()) {
	p := i.plan()
	p.Objects, p.Survivors = p.Objects[:n], nil
	i.carryOut(p, meanwhile)
}

func (i *interruption) restored() {
	i.t.Helper()
	if got := graph(i.Realm, i.resource); got != i.want {
		i.t.Fatalf("restored:\n%s\nwant:\n%s", got, i.want)
	}
}

// B5.7: a restoration that is repeated continues.
func TestPlanRepeated(t *testing.T) {
	t.Parallel()
	i := interrupt(shop(t))
	i.begin(2, func() {})
	p := i.plan()
	check(t, p, "create pods/pod", "give back configmaps/shared: web",
		"note: deployments.apps/web (shop): restored before, with the uid ", "note: replicasets.apps/rs (shop): restored before, with the uid ")
	i.carryOut(p, func() {})
	i.restored()
	check(t, i.plan(), "note: deployments.apps/web", "note: replicasets.apps/rs", "note: pods/pod")
}

// B5.7: an object that an interrupted restoration has created refers to another one, which owns
// it in turn, by a uid under which the repetition creates that one.
func TestPlanRepeatedCycle(t *testing.T) {
	t.Parallel()
	w := shop(t)
	w.change("deployments.apps/web", func(o *client.Object) {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(w.get("pods/pod")))
	})
	i := interrupt(w)
	i.begin(1, func() { i.carryOut(i.plan(), func() {}) }) // before the collector acts
	i.restored()
	i.remove()
	p := i.plan()
	if len(p.Objects) != 3 {
		t.Errorf("%d objects are created again, want 3", len(p.Objects))
	}
	i.carryOut(p, func() {})
	i.restored()
}
