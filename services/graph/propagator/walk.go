package propagator

import (
	"context"

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
// Only rounds begin walks, one after the other.
func (p *Propagator) walk(ctx context.Context, g *errgroup.Group, u uid.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.walking[u] = false
	p.walkBeside(ctx, g, func() error {
		for {
			if err := p.outcome(ctx, p.walkOnce(ctx, u)); err != nil {
				return err
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

// walkOnce walks through an owner's dependents for as long as something is
// owed to them. What is behind the cursor is not read again.
func (p *Propagator) walkOnce(ctx context.Context, u uid.UID) error {
	r := &round{p: p, out: outbox{js: p.c.JS}}
	var cursor state.Edge
	for {
		more, err := p.walkPage(ctx, r, u, &cursor)
		if err != nil {
			return err
		}
		if !more {
			return r.flush(ctx)
		}
		p.touch(u)
		p.c.Failpoint(FailScan)
	}
}

func (p *Propagator) walkPage(ctx context.Context, r *round, u uid.UID, cursor *state.Edge) (more bool, err error) {
	snap := p.c.State.Snapshot()
	row, ok := snap.Owed(u)
	if !ok {
		return false, closeSnapshot(snap)
	}
	n := snap.Node(u)
	owed := lifecycle.OwedBy(snap, u, n)
	into := &r.dirty
	if owed.Orphan {
		into = &r.orphan
	}
	count := 0
	var fail error
	if owed.Judge || owed.Orphan {
		snap.Dependents(u, filter(snap, n), *cursor, func(e state.Edge, d uid.UID) bool {
			into.add(u, row.Revision, d)
			*cursor = e
			count++
			fail = r.flushFull(ctx)
			return fail == nil && count < pageChunks*chunkSize
		})
	}
	if err := closeSnapshot(snap); fail == nil {
		fail = err
	}
	return count == pageChunks*chunkSize, fail
}
