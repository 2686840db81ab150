// Package waiters finds objects that wait for each other in a circle: each is
// deleted in the foreground, and holds up the next (A14). The propagator has
// them broken, and plans foresee that it does.
package waiters

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/scc"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Waiters is a graph of objects that wait: from each to those owners of it that
// it holds up.
type Waiters struct {
	Nodes []*lifecycle.Node
	index map[uid.UID]int // of Nodes, plus one
	next  [][]int
}

// Among is the graph of those of the objects that wait for dependents.
func Among(v lifecycle.View, uids []uid.UID) *Waiters {
	w := &Waiters{index: map[uid.UID]int{}}
	for _, u := range slices.Sorted(slices.Values(uids)) {
		if n := v.Node(u); n != nil && n.Waiting() && lifecycle.Dependents(v, n).Blocking > 0 {
			w.Nodes = append(w.Nodes, n)
			w.index[u] = len(w.Nodes)
		}
	}
	w.next = make([][]int, len(w.Nodes))
	last := make([]int, len(w.Nodes)) // by whom each was added last, plus one
	for i, n := range w.Nodes {
		for o := range n.Owners {
			r := &n.Owners[o]
			if k := w.index[r.UID] - 1; k >= 0 && last[k] != i+1 && lifecycle.BlocksBy(n, r, w.Nodes[k]) {
				w.next[i], last[k] = append(w.next[i], k), i+1
			}
		}
	}
	return w
}

// Has reports whether an object is among them.
func (w *Waiters) Has(u uid.UID) bool { return w.index[u] > 0 }

// Circles returns one circle of each strongly connected component: one of the
// shortest through its first object.
func (w *Waiters) Circles() [][]uid.UID {
	var circles [][]uid.UID
	all := scc.Components(w.next)
	of := make([]int, len(w.Nodes))
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
func (w *Waiters) through(start int, of []int) []uid.UID {
	from := map[int]int{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, to := range w.next[at] {
			if to == start {
				circle := []uid.UID{w.Nodes[at].UID}
				for ; at != start; at = from[at] {
					circle = append(circle, w.Nodes[from[at]].UID)
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
