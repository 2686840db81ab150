package propagator

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// maxStuck is of how many stuck objects is told at once; of the others the next
// times.
const maxStuck = 1000

// stuck gathers objects that others have held for long.
type stuck struct {
	p      *Propagator
	before lifecycle.Time // held since then, or longer
	from   uid.UID
	found  []held
}

type held struct {
	uid   uid.UID
	since lifecycle.Time
}

func (p *Propagator) newStuck(now lifecycle.Time) *stuck {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &stuck{p: p, before: now.Add(-p.c.StuckAfter), from: p.stuckFrom}
}

// look is called with all rows, in order.
func (s *stuck) look(u uid.UID, row state.OwedRow) {
	if s.p.c.Stuck != nil && (row.Finalize || row.Terminate) && row.Since <= s.before && u > s.from && len(s.found) < maxStuck {
		s.found = append(s.found, held{u, row.Since})
	}
}

// tell tells of those that were found.
func (s *stuck) tell() error {
	next := uid.UID("")
	if len(s.found) == maxStuck {
		next = s.found[maxStuck-1].uid
	}
	s.p.mu.Lock()
	s.p.stuckFrom = next
	s.p.mu.Unlock()
	if len(s.found) == 0 {
		return nil
	}
	snap := s.p.c.State.Snapshot()
	for _, h := range s.found {
		if n := snap.Node(h.uid); n != nil && n.Terminating() {
			s.p.c.Stuck(snap, n, h.since)
		}
	}
	return closeSnapshot(snap)
}
