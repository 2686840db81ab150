package cycles

import (
	"maps"
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Blocked has the objects that are blocked by dependents or users, among which cycles are
// searched for. It is safe for concurrent use.
type Blocked struct {
	limit int

	mu   sync.Mutex
	uids map[uid.UID]uint64 // with the revision at which each was seen to be blocked last
	// overflow is the revision of the last object for which there was no room, 0 if
	// there was none. While it is set, a search reads all work rows.
	overflow uint64
}

// NewBlocked returns a set of at most limit objects. A set that is full forgets no cycle:
// the next searches read the work rows instead.
func NewBlocked(limit int) *Blocked {
	return &Blocked{limit: limit, uids: map[uid.UID]uint64{}}
}

// Add adds an object that is blocked at a revision.
func (b *Blocked) Add(u uid.UID, revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.uids) >= b.limit {
		b.overflow = max(b.overflow, revision)
		return
	}
	b.uids[u] = max(b.uids[u], revision)
}

// Forget drops objects whose work rows were deleted.
func (b *Blocked) Forget(gone []uid.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range gone {
		delete(b.uids, u)
	}
}

// Empty reports whether no object is blocked.
func (b *Blocked) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.overflow == 0 && len(b.uids) == 0
}

// Search returns one cycle of each set of objects that block each other in a snapshot,
// and drops objects that are not blocked in it. The caller must check the snapshot's Err.
func (b *Blocked) Search(snap *state.Snapshot) [][]uid.UID {
	b.mu.Lock()
	all, some := b.overflow > 0, slices.Collect(maps.Keys(b.uids))
	b.mu.Unlock()
	if all {
		some = blockedRows(snap)
	}
	snap.Prefetch(some)
	w := NewWaiting(snap, some)
	b.keep(some, snap.Revision(), all, w.Nodes, w.Has)
	return w.Cycles()
}

// keep drops the objects of some that were not blocked at a revision, unless Add has seen them
// blocked after it. all says that some was read from all work rows: then blocked has every object
// that was blocked at the revision, and keep ends an overflow if there is room for them.
func (b *Blocked) keep(some []uid.UID, revision uint64, all bool, blocked []*lifecycle.Node, isBlocked func(uid.UID) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range some {
		if at, ok := b.uids[u]; ok && at <= revision && !isBlocked(u) {
			delete(b.uids, u)
		}
	}
	if all && b.overflow <= revision && len(blocked) < b.limit/2 {
		b.overflow = 0
		for _, n := range blocked {
			b.uids[n.UID] = max(b.uids[n.UID], revision)
		}
	}
}

func blockedRows(snap *state.Snapshot) []uid.UID {
	var blocked []uid.UID
	snap.EachWorkRow("", func(u uid.UID, row state.WorkRow) bool {
		if row.Blocked {
			blocked = append(blocked, u)
		}
		return true
	})
	return blocked
}
