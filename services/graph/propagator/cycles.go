package propagator

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/propagator/queue"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/waiters"
)

// A search takes place so often while objects are blocked, and more rarely where it
// takes long.
const (
	cyclePause  = time.Second
	cycleShares = 20
)

// cycles finds objects that block each other: an object that is deleted in the
// foreground is blocked by its dependents, which can be its owners in turn. A search
// covers all objects that are blocked, at one revision. The writer is asked to
// unblock one reference of each cycle; it verifies the cycle in the commit that does
// (A14, L4).
type cycles struct {
	p *Propagator

	mu      sync.Mutex
	blocked map[uid.UID]uint64 // by which revision they were blocked
	// overflow is the revision of the last object that blocked had no room for; then
	// a search reads all rows. 0 if there is none.
	overflow uint64
}

// maxBlocked bounds cycles.blocked.
const maxBlocked = queue.DefaultLimit

func newCycles(p *Propagator) *cycles { return &cycles{p: p, blocked: map[uid.UID]uint64{}} }

// add adds an object that is blocked at a revision.
func (c *cycles) add(u uid.UID, revision uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.blocked) >= maxBlocked {
		c.overflow = max(c.overflow, revision)
		return
	}
	c.blocked[u] = max(c.blocked[u], revision)
}

// forget drops objects whose rows are gone.
func (c *cycles) forget(gone []uid.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range gone {
		delete(c.blocked, u)
	}
}

// run searches until ctx ends.
func (c *cycles) run(ctx context.Context) error {
	pause := cyclePause
	for {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		start := time.Now()
		for {
			broken, err := c.search(ctx)
			if err := c.p.outcome(ctx, err); err != nil {
				return err
			}
			if !broken {
				break
			}
		}
		pause = max(cyclePause, cycleShares*time.Since(start))
	}
}

// search breaks one cycle in each set of objects that block each other, and reports
// whether it has broken any.
func (c *cycles) search(ctx context.Context) (broken bool, err error) {
	c.mu.Lock()
	all, some := c.overflow > 0, slices.Collect(maps.Keys(c.blocked))
	c.mu.Unlock()
	if !all && len(some) == 0 {
		return false, nil
	}
	var w *waiters.Waiters
	err = c.p.pages(func(snap *state.Snapshot) (bool, error) {
		if all {
			some = blockedRows(snap)
		}
		snap.Prefetch(some)
		w = waiters.Among(snap, some)
		c.keep(some, snap.Revision(), all, w.Nodes, w.Has)
		return false, nil
	})
	if err != nil {
		return false, err
	}
	for _, cycle := range w.Circles() {
		unblocked, err := c.p.c.Unblock(ctx, cycle)
		if err != nil {
			return false, err
		}
		broken = broken || unblocked
	}
	return broken, nil
}

// keep drops those of some objects that were not blocked at a revision, unless they
// have been blocked since. If these were all rows, no object that was blocked then is
// missing.
func (c *cycles) keep(some []uid.UID, revision uint64, all bool, blocked []*lifecycle.Node, isBlocked func(uid.UID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range some {
		if at, ok := c.blocked[u]; ok && at <= revision && !isBlocked(u) {
			delete(c.blocked, u)
		}
	}
	if all && c.overflow <= revision && len(blocked) < maxBlocked/2 {
		c.overflow = 0
		for _, n := range blocked {
			c.blocked[n.UID] = max(c.blocked[n.UID], revision)
		}
	}
}

func blockedRows(snap *state.Snapshot) []uid.UID {
	var blocked []uid.UID
	snap.EachOwed("", func(u uid.UID, row state.OwedRow) bool {
		if row.Held {
			blocked = append(blocked, u)
		}
		return true
	})
	return blocked
}
