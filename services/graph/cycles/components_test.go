package cycles

import (
	"testing"

	"pgregory.net/rapid"
)

// Two vertices are in one component if each is reached from the other.
func TestComponents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "vertices")
		next := make([][]int, n)
		reach := make([][]bool, n)
		for v := range next {
			reach[v] = make([]bool, n)
			reach[v][v] = true
			next[v] = rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(n, 3), rapid.ID[int]).Draw(t, "edges")
			for _, to := range next[v] {
				reach[v][to] = true
			}
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		of := make([]int, n)
		for c, component := range components(next) {
			for _, v := range component {
				if of[v] != 0 {
					t.Fatalf("%d is in two components", v)
				}
				of[v] = c + 1
			}
		}
		for i := range n {
			for j := range n {
				if of[i] == 0 || (of[i] == of[j]) != (reach[i][j] && reach[j][i]) {
					t.Fatalf("%v: components %v", next, of)
				}
			}
		}
	})
}

// A long chain does not overflow the stack.
func TestComponentsOfChain(t *testing.T) {
	t.Parallel()
	next := make([][]int, 200_000)
	for i := range next[1:] {
		next[i] = []int{i + 1}
	}
	if got := len(components(next)); got != len(next) {
		t.Errorf("%d components, want %d", got, len(next))
	}
}
