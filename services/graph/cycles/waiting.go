package cycles

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Waiting is a graph of objects that wait for dependents, users or contents. An edge leads from
// an object to each object that waits for it.
type Waiting struct {
	Nodes []*lifecycle.Node
	index map[uid.UID]int // of Nodes, plus one
	next  [][]int
}

// NewWaiting returns the graph of those of the objects that wait for dependents that
// block them or for users, and of the namespaces and kinds that wait for these objects.
func NewWaiting(v lifecycle.View, uids []uid.UID) *Waiting {
	w := &Waiting{index: map[uid.UID]int{}}
	for _, u := range slices.Sorted(slices.Values(uids)) {
		if n := v.Node(u); n != nil && lifecycle.Waits(v, n) {
			w.add(n)
		}
	}
	for _, n := range w.Nodes {
		for _, c := range lifecycle.ContainersOf(v, n) {
			if c.Draining() && w.index[c.UID] == 0 {
				w.add(c)
			}
		}
	}
	w.next = make([][]int, len(w.Nodes))
	last := make([]int, len(w.Nodes)) // the node that added each last, plus one
	for i, n := range w.Nodes {
		for o := range n.Owners {
			r := &n.Owners[o]
			if k := w.index[r.UID] - 1; k >= 0 && last[k] != i+1 && lifecycle.BlocksBy(n, r, w.Nodes[k]) {
				w.next[i], last[k] = append(w.next[i], k), i+1
			}
		}
		for _, u := range w.others(v, n) {
			if k := w.index[u] - 1; k >= 0 && last[k] != i+1 && lifecycle.WaitOf(v, w.Nodes[k], n) != lifecycle.NoWait {
				w.next[i], last[k] = append(w.next[i], k), i+1
			}
		}
	}
	return w
}

func (w *Waiting) add(n *lifecycle.Node) {
	w.Nodes = append(w.Nodes, n)
	w.index[n.UID] = len(w.Nodes)
}

// others returns the objects that may wait for n for another reason than that they own it.
func (w *Waiting) others(v lifecycle.View, n *lifecycle.Node) (uids []uid.UID) {
	for i := range n.Uses {
		uids = append(uids, n.Uses[i].UID)
	}
	for _, c := range lifecycle.ContainersOf(v, n) {
		uids = append(uids, c.UID)
	}
	return uids
}

// Has reports whether an object waits.
func (w *Waiting) Has(u uid.UID) bool { return w.index[u] > 0 }

// Cycles returns one cycle of each strongly connected component: one of the shortest
// through the object whose uid sorts first.
func (w *Waiting) Cycles() [][]uid.UID {
	var cycles [][]uid.UID
	all := components(w.next)
	of := make([]int, len(w.Nodes))
	for c, component := range all {
		for _, i := range component {
			of[i] = c
		}
	}
	for _, component := range all {
		if cycle := w.through(slices.Min(component), of); cycle != nil {
			cycles = append(cycles, cycle)
		}
	}
	return cycles
}

// through returns a shortest cycle through an object, nil if there is none. of has the
// component of each object; a cycle does not leave its component.
func (w *Waiting) through(start int, of []int) []uid.UID {
	from := map[int]int{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, to := range w.next[at] {
			if to == start {
				cycle := []uid.UID{w.Nodes[at].UID}
				for ; at != start; at = from[at] {
					cycle = append(cycle, w.Nodes[from[at]].UID)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := from[to]; !seen && of[to] == of[start] {
				from[to] = at
				queue = append(queue, to)
			}
		}
	}
	return nil
}
