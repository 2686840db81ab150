package resolve

import (
	"context"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Total counts objects and all their direct and indirect dependents, each once, up to most.
// namespace and sees restrict it as GraphOptions.Namespace and GraphOptions.Sees do. ok is false if ctx ended first.
func Total(ctx context.Context, snap *state.Snapshot, uids []uid.UID, namespace string, sees func(*lifecycle.Kind, *lifecycle.Node) bool, most int) (total int, ok bool) {
	seen := map[uid.UID]bool{}
	var queue []uid.UID
	add := func(u uid.UID) {
		if !seen[u] {
			seen[u] = true
			queue = append(queue, u)
		}
	}
	for _, u := range uids {
		add(u)
	}
	for len(queue) > 0 && total < most {
		if ctx.Err() != nil {
			return total, false
		}
		u := queue[0]
		queue = queue[1:]
		n := snap.Node(u)
		if n == nil || namespace != "" && n.Namespace != namespace || sees != nil && !sees(snap.Kinds().OfNode(n), n) {
			continue
		}
		total++
		if lifecycle.TraitsOf(snap, n)&lifecycle.HasDependents == 0 {
			continue
		}
		behind := len(queue)
		snap.Dependents(u, snap.ValidClaims(n, true), state.Edge{}, func(_ state.Edge, d uid.UID) bool {
			add(d)
			return len(seen) <= most
		})
		snap.Prefetch(queue[behind:])
	}
	return total, true
}
