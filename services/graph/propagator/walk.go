package propagator

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// walkOnceMore has an owner that is being walked walked once more afterwards,
// because of dependents that the walk may have passed already. It reports
// whether it is being walked.
func (p *Propagator) walkOnceMore(u uid.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, walking := p.walking[u]
	if walking {
		p.walking[u] = true
	}
	return walking
}

// walk publishes all dependents of an owner that has many, beside the rounds.
// Only rounds begin walks, one after the other. Where only some of them are due,
// which has to be found out with each walk, there are pauses between walks.
func (p *Propagator) walk(ctx context.Context, g *errgroup.Group, u uid.UID, some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.resting[u]; ok && some && at > lifecycle.TimeOf(p.c.Now()) {
		p.schedule(u, at)
		return
	}
	delete(p.resting, u)
	p.walking[u] = false
	p.walkBeside(ctx, g, func() error {
		for {
			start := p.c.Now()
			some, err := p.walkOnce(ctx, u)
			if err := p.outcome(ctx, err); err != nil {
				return err
			}
			if some {
				p.rest(u, restShares*p.c.Now().Sub(start))
			}
			if !p.walkAgain(u) {
				return nil
			}
		}
	})
}

// walkBeside walks beside the rounds, when there is room for one more walk.
func (p *Propagator) walkBeside(ctx context.Context, g *errgroup.Group, walk func() error) {
	g.Go(func() error {
		select {
		case p.walks <- struct{}{}:
			defer func() { <-p.walks }()
		case <-ctx.Done():
			return ctx.Err()
		}
		return walk()
	})
}

// restShares is how much longer than a walk the pause after it is.
const restShares = 20

// rest says that u was walked, and is not walked again for a while.
func (p *Propagator) rest(u uid.UID, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := lifecycle.TimeOf(p.c.Now()).Add(pause)
	if p.walking[u] {
		p.walking[u] = false
		p.schedule(u, at)
	}
	if len(p.resting) < maxHints {
		p.resting[u] = at
	}
}

func (p *Propagator) walkAgain(u uid.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := p.walking[u]
	if again {
		p.walking[u] = false
	} else {
		delete(p.walking, u)
	}
	return again
}

// pageChunks is how many chunks are made from one snapshot. A snapshot keeps
// Pebble from dropping what was deleted meanwhile.
const pageChunks = 16

// page is how many uids are read from one snapshot.
func (p *Propagator) page() int { return pageChunks * p.c.ChunkSize }

// walkOnce walks through an owner's dependents for as long as something is
// owed to them, and reports whether only some of them were due. What is behind
// the cursor is not read again.
func (p *Propagator) walkOnce(ctx context.Context, u uid.UID) (some bool, err error) {
	r := &round{p: p, out: p.newOutbox()}
	var cursor state.Edge
	for {
		more, part, err := p.walkPage(ctx, r, u, &cursor)
		some = some || part
		if err != nil {
			return some, err
		}
		if !more {
			return some, r.flush(ctx)
		}
		p.touch(u)
		p.c.Failpoint(FailScan)
	}
}

func (p *Propagator) walkPage(ctx context.Context, r *round, u uid.UID, cursor *state.Edge) (more, some bool, err error) {
	snap := p.c.State.Snapshot()
	row, ok := snap.Owed(u)
	if !ok {
		return false, false, closeSnapshot(snap)
	}
	n := snap.Node(u)
	owed, due := lifecycle.OwedWhen(snap, u, n)
	owed = p.begun(u, owed, due)
	into := &r.dirty
	if owed.Orphan {
		into = &r.orphan
	}
	some = owed.Judge && due.Last > lifecycle.TimeOf(p.c.Now())
	count := 0
	var found []uid.UID // where only some are due
	var fail error
	if owed.Judge || owed.Orphan {
		snap.Dependents(u, filter(snap, n, owed.Orphan), *cursor, func(e state.Edge, d uid.UID) bool {
			*cursor = e
			count++
			r.walked++
			if some {
				found = append(found, d)
			} else {
				into.add(u, row.Revision, d)
				fail = r.flushFull(ctx)
			}
			return fail == nil && count < p.page()
		})
	}
	if some {
		for _, d := range p.ripe(snap, u, found) {
			into.add(u, row.Revision, d)
			if fail = r.flushFull(ctx); fail != nil {
				break
			}
		}
	}
	if err := closeSnapshot(snap); fail == nil {
		fail = err
	}
	return count == p.page(), some, fail
}
