package propagator

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/scc"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
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
	w := waitersAmong(snap, some)
	if err := closeSnapshot(snap); err != nil {
		return false, err
	}
	p.mu.Lock()
	for _, u := range some {
		if w.index[u] == 0 {
			delete(p.held, u)
		}
	}
	if all && len(w.nodes) < maxHints/2 {
		p.allHeld = false
		for _, n := range w.nodes {
			p.held[n.UID] = true
		}
	}
	p.mu.Unlock()
	for _, circle := range w.circles() {
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

// waiters is a graph of objects that wait: from each to those owners of it that
// it holds up.
type waiters struct {
	nodes []*lifecycle.Node
	index map[uid.UID]int // of nodes, plus one
	next  [][]int
}

func waitersAmong(snap *state.Snapshot, uids []uid.UID) *waiters {
	slices.Sort(uids)
	snap.Prefetch(uids)
	w := &waiters{index: map[uid.UID]int{}}
	for _, u := range uids {
		if n := snap.Node(u); n != nil && n.Waiting() && lifecycle.Dependents(snap, n).Blocking > 0 {
			w.nodes = append(w.nodes, n)
			w.index[u] = len(w.nodes)
		}
	}
	w.next = make([][]int, len(w.nodes))
	for i, n := range w.nodes {
		for o := range n.Owners {
			if k := w.index[n.Owners[o].UID] - 1; k >= 0 && !slices.Contains(w.next[i], k) && lifecycle.Holds(n, w.nodes[k]) {
				w.next[i] = append(w.next[i], k)
			}
		}
	}
	return w
}

// circles returns one circle of each strongly connected component: one of the
// shortest through its first object.
func (w *waiters) circles() [][]uid.UID {
	var circles [][]uid.UID
	all := scc.Components(w.next)
	of := make([]int, len(w.nodes))
	for c, component := range all {
		for _, i := range component {
			of[i] = c
		}
	}
	for _, component := range all {
		if circle := w.through(slices.Min(component), of); circle != nil {
			circles = append(circles, circle)
		}
	}
	return circles
}

// through returns a shortest circle through an object, nil if there is none. of
// are the components; a circle does not leave its own.
func (w *waiters) through(start int, of []int) []uid.UID {
	from := map[int]int{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, to := range w.next[at] {
			if to == start {
				circle := []uid.UID{w.nodes[at].UID}
				for ; at != start; at = from[at] {
					circle = append(circle, w.nodes[from[at]].UID)
				}
				slices.Reverse(circle)
				return circle
			}
			if _, seen := from[to]; !seen && of[to] == of[start] {
				from[to] = at
				queue = append(queue, to)
			}
		}
	}
	return nil
}
