package state_test

import (
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// What is in a namespace, or of a kind, is walked in order and from any place on.
func TestContents(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Register(gadgets("gadgets"))
	r.Create("namespaces/shop", nil)
	r.Create("nodes/shop", nil)
	for _, target := range []string{"pods/c@shop", "pods/a@shop", "gadgets/b@shop", "gadgets/d@market", "pods/e@shops"} {
		r.Create(target, nil)
	}
	snap := r.Snapshot()
	defer snap.Close()
	for container, want := range map[uid.UID][]uid.UID{
		r.UID("namespaces/shop"):                         {r.UID("gadgets/b@shop"), r.UID("pods/a@shop"), r.UID("pods/c@shop")},
		snap.Kinds().Resource("gadgets.example.com").UID: {r.UID("gadgets/d@market"), r.UID("gadgets/b@shop")},
		snap.Kinds().Resource("nodes").UID:               {r.UID("nodes/shop")},
		snap.Kinds().Resource("secrets").UID:             nil,
	} {
		n := snap.Node(container)
		for page := 1; page <= 3; page++ {
			var found []uid.UID
			var at state.Content
			for more := true; more; {
				read := 0
				snap.Contents(n, at, func(place state.Content, u uid.UID) bool {
					at, found, read = place, append(found, u), read+1
					return read < page
				})
				more = read == page
			}
			if !slices.Equal(found, want) {
				t.Errorf("in %s, by %d: %v, want %v", n.Name, page, found, want)
			}
		}
	}
}
