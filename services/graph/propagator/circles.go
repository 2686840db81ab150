package propagator

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/waiters"
)

// Objects that are deleted in the foreground wait for their dependents, and can
// wait for each other in a circle. Circles are looked for among all objects that
// wait, at one revision; where there is one the writer is asked to unblock one
// reference of it, and it looks again in the commit that does (A14, L4).

// A look takes place so often while objects wait, and more rarely where it
// takes long.
const (
	circlePause  = time.Second
	circleShares = 20
)

// hold remembers that an object waits for dependents that are being deleted.
func (p *Propagator) hold(u uid.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) >= maxHints {
		p.allHeld = true
		return
	}
	p.held[u] = true
}

// circles looks for circles until ctx ends.
func (p *Propagator) circles(ctx context.Context) error {
	pause := circlePause
	for {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		start := time.Now()
		for {
			broken, err := p.breakCircles(ctx)
			if err := p.outcome(ctx, err); err != nil {
				return err
			}
			if !broken {
				break
			}
		}
		pause = max(circlePause, circleShares*time.Since(start))
	}
}

// breakCircles breaks one circle in each set of objects that wait for each
// other, and reports whether it has broken any.
func (p *Propagator) breakCircles(ctx context.Context) (broken bool, err error) {
	p.mu.Lock()
	all, some := p.allHeld, make([]uid.UID, 0, len(p.held))
	for u := range p.held {
		some = append(some, u)
	}
	p.mu.Unlock()
	if !all && len(some) == 0 {
		return false, nil
	}
	snap := p.c.State.Snapshot()
	if all {
		some = heldRows(snap)
	}
	snap.Prefetch(some)
	w := waiters.Among(snap, some)
	if err := closeSnapshot(snap); err != nil {
		return false, err
	}
	p.mu.Lock()
	for _, u := range some {
		if !w.Has(u) {
			delete(p.held, u)
		}
	}
	if all && len(w.Nodes) < maxHints/2 {
		p.allHeld = false
		for _, n := range w.Nodes {
			p.held[n.UID] = true
		}
	}
	p.mu.Unlock()
	for _, circle := range w.Circles() {
		unblocked, err := p.c.Unblock(ctx, circle)
		if err != nil {
			return false, err
		}
		broken = broken || unblocked
	}
	return broken, nil
}

func heldRows(snap *state.Snapshot) []uid.UID {
	var held []uid.UID
	snap.EachOwed("", func(u uid.UID, row state.OwedRow) bool {
		if row.Held {
			held = append(held, u)
		}
		return true
	})
	return held
}
