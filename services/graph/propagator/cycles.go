package propagator

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/cycles"
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
	return searchRepeatedly(ctx, func(ctx context.Context) (bool, error) {
		broken, err := p.searchCycles(ctx)
		return broken, p.outcome(ctx, err)
	})
}

// searchRepeatedly calls search until it fails or ctx ends: at once after a search that broke a
// cycle, and otherwise after a pause. What it takes to break cycles, while new ones come, does not
// make the pause longer.
func searchRepeatedly(ctx context.Context, search func(context.Context) (broken bool, err error)) error {
	pause := cyclePause
	for {
		if err := poll.Sleep(ctx, pause); err != nil {
			return err
		}
		for broken := true; broken; {
			start := time.Now()
			var err error
			if broken, err = search(ctx); err != nil {
				return err
			}
			pause = max(cyclePause, cycleShares*time.Since(start))
		}
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
	var paths, warned []string // "" for a cycle without a use
	err = p.pages(func(snap *state.Snapshot) (bool, error) {
		found = p.blocked.Search(snap)
		paths, warned = make([]string, len(found)), make([]string, len(found))
		for i, cycle := range found {
			paths[i] = cycles.UsePath(snap, cycle)
			warned[i] = cycles.WarnedPath(snap, cycle, paths[i])
		}
		return false, nil
	})
	if err != nil {
		return false, err
	}
	for i, cycle := range found {
		unblocked, err := p.c.Unblock(ctx, cycle, paths[i])
		if err != nil {
			return false, err
		}
		if unblocked && paths[i] != "" {
			if err := p.released(cycle, warned[i]); err != nil {
				return false, err
			}
		}
		broken = broken || unblocked
	}
	return broken, nil
}

// released calls Config.Released with an object of a cycle in which a use was released.
func (p *Propagator) released(cycle []uid.UID, path string) error {
	if p.c.Released == nil {
		return nil
	}
	return p.pages(func(snap *state.Snapshot) (bool, error) {
		for _, u := range cycle {
			if n := snap.Node(u); n != nil {
				p.c.Released(snap, n, path)
				break
			}
		}
		return false, nil
	})
}
