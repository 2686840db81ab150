package propagator

import (
	"context"
	"sync"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// maxStuck is how many stuck objects are reported by one call of Republish. The next
// call goes on after them.
const maxStuck = 1000

// stuckCursor is the object after which the next call of Republish begins.
type stuckCursor struct {
	mu sync.Mutex
	at uid.UID
}

// stuckSearch collects objects that finalizers or agents have blocked for long.
type stuckSearch struct {
	p      *Propagator
	before lifecycle.Time // blocked since then, or longer
	after  uid.UID
	found  []stuckObject
}

type stuckObject struct {
	uid   uid.UID
	since lifecycle.Time
}

func (p *Propagator) findStuck(now lifecycle.Time) *stuckSearch {
	p.stuck.mu.Lock()
	defer p.stuck.mu.Unlock()
	return &stuckSearch{p: p, before: now.Add(-p.c.StuckAfter), after: p.stuck.at}
}

// visit is called with all rows, in order.
func (s *stuckSearch) visit(u uid.UID, row state.WorkRow) {
	if s.p.c.Stuck != nil && (row.Finalize || row.Terminate) && row.Since <= s.before && u > s.after && len(s.found) < maxStuck {
		s.found = append(s.found, stuckObject{u, row.Since})
	}
}

// report calls Config.Stuck with the objects that were found.
func (s *stuckSearch) report(ctx context.Context) error {
	next := uid.UID("")
	if len(s.found) == maxStuck {
		next = s.found[maxStuck-1].uid
	}
	s.p.stuck.mu.Lock()
	s.p.stuck.at = next
	s.p.stuck.mu.Unlock()
	if len(s.found) == 0 {
		return nil
	}
	return s.p.pages(func(snap *state.Snapshot) (bool, error) {
		for _, o := range s.found {
			if n := snap.Node(o.uid); n != nil && n.Terminating() {
				s.p.c.Stuck(ctx, snap, n, o.since)
			}
		}
		return false, nil
	})
}
