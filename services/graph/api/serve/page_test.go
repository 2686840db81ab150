package serve

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// Pages have the objects that match, with their nodes and bodies, in the order of their
// names and each once, whether many match or few, and however large the pages are.
func TestPages(t *testing.T) {
	t.Parallel()
	const n = 1300
	r := statetest.New(t)
	label := func(every, i int) string { return fmt.Sprint(i%every == 0) }
	creations := make([]statetest.Decide, n)
	for i := range creations {
		meta := &coppicev1.ObjectMeta{Labels: map[string]string{"all": "true", "third": label(3, i), "rare": label(500, i)}}
		if i%1000 == 0 {
			meta.Initializers = &coppicev1.Initializers{Pending: []*coppicev1.Initializer{{Name: "later.example.com"}}}
		}
		creations[i] = r.Creation(fmt.Sprintf("configmaps/c-%04d", i), meta)
	}
	r.Must(creations...)
	snap := r.Snapshot()
	defer snap.Close()
	kind := r.Key("configmaps/any").Kind
	for query, every := range map[string]int{"": 1, "all=true": 1, "third=true": 3, "rare=true": 500, "all=false": n + 1} {
		labels, err := selector.Parse(query)
		must.Succeed(t, err)
		for _, uninitialized := range []bool{false, true} {
			var want []string
			for i := range n {
				if i%every == 0 && every <= n && (uninitialized || i%1000 != 0) {
					want = append(want, fmt.Sprintf("c-%04d", i))
				}
			}
			for _, limit := range []int{40, 0} {
				for _, looks := range []int{300, 600, 0} {
					p := Page{Kind: kind, Namespace: "default", Labels: labels, Uninitialized: uninitialized, Limit: limit, MaxBytes: math.MaxInt, MaxLooks: looks}
					var found []string
					for {
						p.After = p.Each(snap, func(o lifecycle.Object) {
							found = append(found, o.Name)
							if o.Body.GetLabels()["all"] != "true" {
								t.Errorf("%s comes without its body", o.Name)
							}
						})
						if p.After == (state.NameCursor{}) {
							break
						}
					}
					if !slices.Equal(found, want) {
						t.Errorf("%q, pages of %d, or of what %d looks find: %d objects, or others, want %d", query, limit, looks, len(found), len(want))
					}
				}
			}
		}
	}
	if err := snap.Err(); err != nil {
		t.Error(err)
	}
}
