package cycles

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Limits of a search. It remembers the objects that have both owners and dependents, as
// every object of a cycle has.
const (
	maxCandidates = 2_000_000
	// MaxMembers is the largest number of objects of a cycle that is collected: a cycle
	// is collected in one commit, or not at all.
	MaxMembers = 10_000
)

// Unreachable returns the unreachable cycles in a snapshot. It reads every object that
// has dependents once. complete is false if there are more candidates than it remembers.
func Unreachable(snap *state.Snapshot, now lifecycle.Time) (cycles [][]uid.UID, complete bool) {
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
	last := make([]int, len(nodes)) // the node that added each last, plus one
	for i, n := range nodes {
		for o := range n.Owners {
			r := &n.Owners[o]
			if k, ok := index[r.UID]; ok && last[k] != i+1 && lifecycle.Fits(n, r, nodes[k]) {
				next[i], last[k] = append(next[i], k), i+1
			}
		}
	}
	for _, component := range components(next) {
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
