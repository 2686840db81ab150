package resolve_test

import (
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// The contents of a namespace that is being deleted are counted up to a limit; the contents
// of other namespaces are not read.
func TestContents(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	shop := r.Create("namespaces/shop", nil)
	many := r.Create("namespaces/many", nil)
	list := []statetest.Decide{r.Creation("pods/a@shop", nil), r.Creation("secrets/b@shop", nil)}
	for i := range 1001 {
		list = append(list, r.Creation(fmt.Sprintf("configmaps/c-%d@many", i), nil))
	}
	r.Must(list...)
	contents := func(u uid.UID) uint32 {
		snap := r.Snapshot()
		defer snap.Close()
		reply := resolve.Graph(snap, []uid.UID{u}, resolve.GraphOptions{Limit: 1, MaxBytes: 1 << 20, Now: r.Clock})
		return one(t, reply.GetNodes()).GetContents()
	}
	if n := contents(shop); n != 0 {
		t.Errorf("%d in a namespace that stays", n)
	}
	r.Delete("namespaces/shop", "")
	r.Delete("namespaces/many", "")
	if n := contents(shop); n != 2 {
		t.Errorf("%d, want 2", n)
	}
	if n := contents(many); n != 1000 {
		t.Errorf("%d, want as far as it is counted", n)
	}
}

func one(t *testing.T, nodes []*coppicev1.GraphNode) *coppicev1.GraphNode {
	t.Helper()
	if len(nodes) != 1 {
		t.Fatalf("%d nodes, want one", len(nodes))
	}
	return nodes[0]
}
