package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/allinone"
)

// S14: one processor and four have the same result for the same objects, and remove each
// object once.
func TestProcessors(t *testing.T) {
	t.Parallel()
	for _, processors := range []int{1, 4} {
		t.Run(fmt.Sprint(processors), func(t *testing.T) {
			t.Parallel()
			r := startWith(t, allinone.Config{Processors: processors})
			a := r.Create(deployments, "shop", named("a"))
			b := r.Create(deployments, "shop", named("b"))
			c := r.Create(deployments, "shop", named("c"))
			var gone, stay []string
			for i := range 20 {
				both, kept := fmt.Sprintf("both-%02d", i), fmt.Sprintf("kept-%02d", i)
				set := r.Create(replicasets, "shop", named(both, a, b))
				r.Create(pods, "shop", named(both, set))
				r.Create(pods, "shop", named(kept, a, c))
				gone, stay = append(gone, both), append(stay, kept)
			}
			events, ready := r.watched(r.Resource(pods, "shop"), client.WatchOptions{})
			testkit.Receive(t, r.Ctx, "the first state", ready)
			r.delete(deployments, "shop", "a", "Foreground")
			r.delete(deployments, "shop", "b", "Background")
			r.WaitFor("objects without owners to be removed, and the others to have one owner", func() bool {
				one := true
				for _, name := range stay {
					one = one && len(r.Get(pods, "shop", name).GetMetadata().GetOwnerReferences()) == 1
				}
				return one && slices.Equal(r.names(pods, "shop"), stay) && len(r.names(replicasets, "shop")) == 0
			})
			r.Create(pods, "shop", named("last"))
			var removed []string
			for event := ""; event != "ADDED last"; {
				event = testkit.Receive(t, r.Ctx, "the last event", events)
				if name, is := strings.CutPrefix(event, "DELETED "); is {
					removed = append(removed, name)
				}
			}
			slices.Sort(removed)
			if !slices.Equal(removed, gone) {
				t.Errorf("removed were %v, want %v", removed, gone)
			}
		})
	}
}
