package propagator

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
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

// hold remembers that an object waits for dependents that are being deleted, at
// this revision.
func (p *Propagator) hold(u uid.UID, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) >= maxHints {
		p.allHeld = max(p.allHeld, revision)
		return
	}
	p.held[u] = max(p.held[u], revision)
}

// waited keeps in mind which of some objects wait: those that waiting reports, at
// this revision, and those that have begun to wait since. all says that these were
// all that waited.
func (p *Propagator) waited(some []uid.UID, revision uint64, all bool, waiting []*lifecycle.Node, has func(uid.UID) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range some {
		if at, ok := p.held[u]; ok && at <= revision && !has(u) {
			delete(p.held, u)
		}
	}
	if all && p.allHeld <= revision && len(waiting) < maxHints/2 {
		p.allHeld = 0
		for _, n := range waiting {
			p.held[n.UID] = max(p.held[n.UID], revision)
		}
	}
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
	all, some := p.allHeld > 0, make([]uid.UID, 0, len(p.held))
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
	w, revision := waiters.Among(snap, some), snap.Revision()
	if err := closeSnapshot(snap); err != nil {
		return false, err
	}
	p.waited(some, revision, all, w.Nodes, w.Has)
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
