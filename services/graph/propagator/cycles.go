package propagator

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// While objects are blocked, a search for cycles starts after cyclePause, or after
// cycleShares times as long as the last one took if that is longer.
const (
	cyclePause  = time.Second
	cycleShares = 20
)

// breakCycles searches for cycles of objects that wait for each other, and has the writer
// break them, until ctx ends.
func (p *Propagator) breakCycles(ctx context.Context) error {
	pause := cyclePause
	for {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		start := time.Now()
		for {
			broken, err := p.searchCycles(ctx)
			if err := p.outcome(ctx, err); err != nil {
				return err
			}
			if !broken {
				break
			}
		}
		pause = max(cyclePause, cycleShares*time.Since(start))
	}
}

// searchCycles searches all objects that are blocked, at one revision, and asks the
// writer to break one cycle in each set of objects that block each other. The writer
// verifies the cycle in the commit that does. broken reports whether any was broken.
func (p *Propagator) searchCycles(ctx context.Context) (broken bool, err error) {
	if p.blocked.Empty() {
		return false, nil
	}
	var found [][]uid.UID
	err = p.pages(func(snap *state.Snapshot) (bool, error) {
		found = p.blocked.Search(snap)
		return false, nil
	})
	if err != nil {
		return false, err
	}
	for _, cycle := range found {
		unblocked, err := p.c.Unblock(ctx, cycle)
		if err != nil {
			return false, err
		}
		broken = broken || unblocked
	}
	return broken, nil
}
