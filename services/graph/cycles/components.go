package cycles

import "slices"

// components returns the strongly connected components of a graph, which is given by the
// edges of each vertex: Tarjan's algorithm without recursion, because a chain of owners
// can be as long as there are objects.
func components(next [][]int) [][]int {
	var (
		found   [][]int
		order   = make([]int, len(next)) // when a vertex was reached; 0: not yet
		low     = make([]int, len(next)) // the earliest that is reached from it
		onStack = make([]bool, len(next))
		stack   []int
		reached int
	)
	type frame struct{ at, edge int }
	for root := range next {
		if order[root] != 0 {
			continue
		}
		path := []frame{{at: root}}
		for len(path) > 0 {
			f := &path[len(path)-1]
			v := f.at
			if order[v] == 0 {
				reached++
				order[v], low[v] = reached, reached
				stack, onStack[v] = append(stack, v), true
			}
			if f.edge < len(next[v]) {
				to := next[v][f.edge]
				f.edge++
				switch {
				case order[to] == 0:
					path = append(path, frame{at: to})
				case onStack[to]:
					low[v] = min(low[v], order[to])
				}
				continue
			}
			if low[v] == order[v] {
				at := len(stack) - 1
				for stack[at] != v {
					at--
				}
				component := slices.Clone(stack[at:])
				for _, c := range component {
					onStack[c] = false
				}
				stack = stack[:at]
				found = append(found, component)
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				parent := path[len(path)-1].at
				low[parent] = min(low[parent], low[v])
			}
		}
	}
	return found
}
