package objects

import (
	"testing"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// Pages of finalizers count each object once, wherever a page ends: also behind the last object of a kind.
func TestPagesOfFinalizers(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	const name = "example.com/bucket"
	var creations []statetest.Decide
	for _, target := range []string{"configmaps/a", "configmaps/b", "pods/a", "secrets/a", "secrets/b", "secrets/c"} {
		creations = append(creations, r.Creation(target, &coppicev1.ObjectMeta{Finalizers: []string{name}}))
	}
	r.Must(creations...)
	snap := r.Snapshot()
	defer snap.Close()
	for limit := range uint32(8) {
		objects, token := uint64(0), ""
		for {
			page, err := newFinalizerPage(&coppicev1.ListFinalizersRequest{Limit: limit, Continue: token})
			if err != nil {
				t.Fatalf("pages of %d objects: %v", limit, err)
			}
			reply := page.read(snap)
			for _, f := range reply.GetFinalizers() {
				objects += f.GetObjects()
			}
			if token = reply.GetContinue(); token == "" {
				break
			}
		}
		if objects != uint64(len(creations)) {
			t.Errorf("pages of %d objects have %d objects with a finalizer, want %d", limit, objects, len(creations))
		}
	}
}
