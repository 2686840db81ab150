package chart

import "testing"

// opened returns the places of nodes before and after one of 1,000 closed owners is opened.
func opened(t *testing.T, g *Graph, at uint32) (before, after map[Key][2]float32) {
	t.Helper()
	var chart Chart
	places := func(ask *Ask) map[Key][2]float32 {
		list := map[Key][2]float32{}
		for _, n := range chart.Arrange(g, ask).Nodes {
			list[n.Key] = [2]float32{n.X, n.Y}
		}
		return list
	}
	return places(&Ask{Fit: 1001, Most: 5000}), places(&Ask{Fit: 1001, Most: 5000, Open: []Key{object(at)}})
}

// Opening one of 1,000 closed owners moves only those behind it, and moves the owner itself only to the middle of its family.
func TestOpeningMovesThoseBehind(t *testing.T) {
	t.Parallel()
	const owners, pods = 1000, 12
	g := owned(owners*(pods+1), func(i uint32) uint32 {
		if i <= owners {
			return 0
		}
		return (i-owners-1)/pods + 1
	})
	for _, at := range []uint32{1, 2, 500, owners} {
		before, after := opened(t, g, at)
		if len(before) != owners+1 || len(after) != owners+1+pods {
			t.Fatalf("%d nodes are shown, then %d", len(before), len(after))
		}
		for i := uint32(1); i < at; i++ {
			if before[object(i)] != after[object(i)] {
				t.Fatalf("owner %d moves from %v to %v when %d is opened", i, before[object(i)], after[object(i)], at)
			}
		}
		if y := before[object(at)][1]; at > 1 && after[object(at)][1] < y {
			t.Errorf("owner %d moves up from %v to %v when it is opened", at, before[object(at)], after[object(at)])
		}
	}
}

// Closed owners are in the order of their numbers, row by row, among the families, and as many as leaves take as much space.
func TestClosedOwnersKeepTheirPlace(t *testing.T) {
	t.Parallel()
	g := owned(9000, func(i uint32) uint32 {
		if i <= 3000 {
			return 0
		}
		return (i-3001)/2 + 1
	})
	ask := &Ask{Fit: 3001, Most: 5000, Open: []Key{object(7), object(1500)}}
	p := (&Chart{}).Arrange(g, ask)
	last := [2]float32{}
	for _, n := range p.Nodes {
		if n.Key.Object == 0 || n.Key.Object > 3000 {
			continue
		}
		if at := [2]float32{n.Y, n.X}; n.Key.Object > 1 && (at[0] < last[0] || at[0] == last[0] && at[1] <= last[1]) {
			t.Fatalf("owner %d is at %v, before the one in front of it at %v", n.Key.Object, at, last)
		}
		last = [2]float32{n.Y, n.X}
	}
	if area := p.Width * p.Height; area > 3000*cellWidth*1.2 {
		t.Errorf("3,000 closed owners take %v by %v", p.Width, p.Height)
	}
}
