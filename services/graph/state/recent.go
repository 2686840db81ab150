package state

import (
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// recent is a cache of nodes that snapshots have read recently, as they are in the newest
// state. Resolving a processor's chunk reads nodes, and soon afterwards the writer reads
// the same ones to act on them. It is safe for concurrent use.
type recent struct {
	mu         sync.Mutex
	generation uint64                 // counts the writes to the state
	changed    [changesKept][]uid.UID // the objects that each of the last writes changed, sorted; by generation modulo changesKept
	young, old map[uid.UID]cached     // the two halves: what was added last, and before that
	weight     int                    // approximate size in bytes of what was added to young
}

const (
	// nodesKept is the maximum number of nodes in each of the two halves, and weightKept
	// that of their bytes, approximately: there can be fewer nodes with many owners.
	nodesKept  = 1 << 14
	weightKept = 32 << 20
	// changesKept is the maximum number of writes that a snapshot may be behind for its
	// reads to be added.
	changesKept = 32
)

func newRecent() *recent { return &recent{young: map[uid.UID]cached{}} }

// add adds nodes that a snapshot of a generation has read, unless they have changed since.
// The uids must be sorted.
func (r *recent) add(generation uint64, sorted []uid.UID, nodes map[uid.UID]cached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation-generation > changesKept {
		return
	}
	for _, u := range sorted {
		if n := nodes[u]; n.node != nil && !r.changedSince(generation, u) {
			r.young[u] = n
			r.weight += weigh(n.node)
			if r.weight >= weightKept {
				r.rotate()
			}
		}
	}
	if len(r.young) >= nodesKept {
		r.rotate()
	}
}

// rotate drops the older half.
func (r *recent) rotate() {
	r.old, r.young, r.weight = r.young, make(map[uid.UID]cached, min(len(r.young), nodesKept)), 0
}

// weigh returns the approximate size of a node in bytes.
func weigh(n *lifecycle.Node) int {
	const node, reference, finalizer = 512, 160, 64
	return node + reference*len(n.Owners) + finalizer*(len(n.Finalizers)+len(n.Initializers))
}

func (r *recent) changedSince(generation uint64, u uid.UID) bool {
	for g := generation + 1; g <= r.generation; g++ {
		if _, found := slices.BinarySearch(r.changed[g%changesKept], u); found {
			return true
		}
	}
	return false
}

// write records that objects change, which must be sorted. It begins a generation; snapshots
// that were taken before are of an older one.
func (r *recent) write(sorted []uid.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.changed[r.generation%changesKept] = sorted
	for _, u := range sorted {
		delete(r.young, u)
		delete(r.old, u)
	}
}

// now returns the generation of a snapshot that is taken now.
func (r *recent) now() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation
}

// find calls visit for the nodes among uids that are cached, and returns the other uids in
// the array of uids.
func (r *recent) find(uids []uid.UID, visit func(uid.UID, cached)) (others []uid.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	others = uids[:0]
	for _, u := range uids {
		n, ok := r.young[u]
		if !ok {
			n, ok = r.old[u]
		}
		if ok {
			visit(u, n)
		} else {
			others = append(others, u)
		}
	}
	return others
}
