// Package unreachable finds cycles of objects that own each other and that
// nothing outside of them owns. The collector counts references, and so never
// comes to them (A14); Kubernetes keeps them for ever.
package unreachable

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/scc"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Limits of what is looked at. Objects in the middle of a cycle have owners and
// dependents; of others nothing is remembered.
const (
	maxCandidates = 2_000_000
	// MaxMembers is how large a cycle is at the most that is collected: in one
	// commit, or not at all.
	MaxMembers = 10_000
)

// Find returns the cycles in a snapshot. It looks at every object once.
// complete is false if there were too many to remember.
func Find(snap *state.Snapshot, now lifecycle.Time) (cycles [][]uid.UID, complete bool) {
	var nodes []*lifecycle.Node
	index := map[uid.UID]int{}
	complete = true
	snap.EachParent(func(n *lifecycle.Node) bool {
		if len(n.Owners) == 0 || n.Terminating() {
			return true
		}
		if complete = len(nodes) < maxCandidates; complete {
			index[n.UID] = len(nodes)
			nodes = append(nodes, n)
		}
		return complete
	})
	next := make([][]int, len(nodes))
	last := make([]int, len(nodes)) // by whom each was added last, plus one
	for i, n := range nodes {
		for o := range n.Owners {
			r := &n.Owners[o]
			if k, ok := index[r.UID]; ok && last[k] != i+1 && lifecycle.Fits(n, r, nodes[k]) {
				next[i], last[k] = append(next[i], k), i+1
			}
		}
	}
	for _, component := range scc.Components(next) {
		if len(component) == 1 && !slices.Contains(next[component[0]], component[0]) {
			continue
		}
		members, uids := make([]*lifecycle.Node, len(component)), make([]uid.UID, len(component))
		for i, k := range component {
			members[i], uids[i] = nodes[k], nodes[k].UID
		}
		if lifecycle.Unreachable(snap, members, now) {
			slices.Sort(uids)
			cycles = append(cycles, uids)
		}
	}
	return cycles, complete
}
