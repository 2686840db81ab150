package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// The refusal of a plan for one namespace names no object of another.
func TestRefusalsNameNothingElsewhere(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("secrets/hidden@vault", nil)
	snap := r.Snapshot()
	defer snap.Close()
	n := snap.Node(snap.Lookup(snap.Kinds().Of("", "Secret"), "vault", "hidden"))
	for in, named := range map[string]bool{"vault": true, "shop": false} {
		p := &run{namespaces: []string{in}, snap: snap, planned: map[uid.UID]*Object{n.UID: {Node: n}}}
		p.outcome(nil, &lifecycle.Error{Reason: api.ErrConflict, Message: "hidden cannot go"}, n.UID)
		for _, err := range []*lifecycle.Error{p.refusal, p.unreadable(&state.UnreadableError{Node: n, Err: errors.New("it is damaged")})} {
			if err == nil || strings.Contains(err.Message, "hidden") != named || !named && err.UID != "" {
				t.Errorf("in namespace %s: %+v", in, err)
			}
		}
	}
}
