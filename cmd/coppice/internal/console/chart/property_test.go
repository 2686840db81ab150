package chart

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawGraph draws a graph in which objects own each other in any way, and some numbers are of no object.
func drawGraph(t *rapid.T, r *rand.Rand) *Graph {
	g := &Graph{Kinds: []Kind{{}, {"pods", "a"}, {"jobs.batch", "a"}, {"pods", "b"}, {"nodes", ""}, {"pods", "b"}}}
	n := rapid.IntRange(0, 30).Draw(t, "objects")
	places, absent, most := 1+r.IntN(len(g.Kinds)-1), r.IntN(4), 1+r.IntN(3)
	var owners [][]uint32
	add := func(place uint32, state State, list []uint32) {
		g.Places, g.States, owners = append(g.Places, place), append(g.States, state), append(owners, list)
	}
	add(0, Present, nil)
	for i := range n {
		if r.IntN(10) < absent {
			add(0, Present, nil)
			continue
		}
		var list []uint32 // each owner once, of which some are not there
		for range r.IntN(most + 1) {
			o := r.IntN(n + 2)
			if r.IntN(4) > 0 {
				o = r.IntN(i + 1) // mostly, owners exist before their dependents
			}
			if !slices.Contains(list, uint32(o)) {
				list = append(list, uint32(o))
			}
		}
		add(uint32(1+r.IntN(places)), State(r.IntN(int(States))), list)
	}
	if rapid.IntRange(0, 9).Draw(t, "many") == 9 {
		for range alone + r.IntN(3) {
			add(1, Protected, nil)
		}
	}
	if rapid.Bool().Draw(t, "labels") {
		for range g.Places {
			g.Labelled = append(g.Labelled, r.IntN(3) == 0)
		}
	}
	for _, list := range owners {
		g.First = append(g.First, uint32(len(g.Owners)))
		g.Owners = append(g.Owners, list...)
	}
	g.First = append(g.First, uint32(len(g.Owners)))
	return g
}

func drawAsk(t *rapid.T, r *rand.Rand, g *Graph) *Ask {
	keys := []Key{{Group: true, Namespace: "a"}, {Group: true, Resource: "pods", Namespace: "a"}, {Group: true}, {Group: true, Namespace: "none"}}
	numbers := uint32(min(len(g.Places)+2, 33))
	for i := range numbers {
		keys = append(keys, object(i))
	}
	some := func(most int) (list []Key) {
		for range r.IntN(most + 1) {
			list = append(list, keys[r.IntN(len(keys))])
		}
		return list
	}
	fit := rapid.IntRange(1, 40).Draw(t, "fit")
	ask := &Ask{Fit: fit, Most: fit - 5 + r.IntN(40), Open: some(4), Shut: some(3)}
	for range r.IntN(3) {
		ask.Show = append(ask.Show, r.Uint32N(numbers))
	}
	ask.Most = max(ask.Most, 1)
	switch r.IntN(4) {
	case 0:
		ask.Scope.Root = 1 + r.Uint32N(numbers)
	case 1:
		ask.Scope.Namespace = &g.Kinds[1+r.IntN(4)].Namespace
	}
	return ask
}

// random returns a source of numbers that have no preference for small ones, as those of rapid have.
func random(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
}

// A picture is what the definitions say, whatever the Chart arranged before.
func TestArrange(t *testing.T) {
	t.Parallel()
	used := &Chart{}
	rapid.Check(t, func(t *rapid.T) {
		r := random(t)
		g := drawGraph(t, r)
		for range 10 {
			ask := drawAsk(t, r, g)
			p := used.Arrange(g, ask)
			newNaive(g, &ask.Scope).compare(t, ask, p)
			if len(p.Nodes) > ask.Most {
				t.Fatalf("%d nodes are shown, at most %d may be", len(p.Nodes), ask.Most)
			}
			checkSought(t, g, ask, p)
			checkPlaces(t, p)
			var c Chart
			if again := c.Arrange(g, ask); fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", p) {
				t.Fatalf("the same graph gives %+v, and %+v", p, again)
			}
		}
	})
}

// checkSought checks that the objects that the page looks for are shown, if there is room for them.
func checkSought(t *rapid.T, g *Graph, ask *Ask, p *Picture) {
	w := newNaive(g, &ask.Scope)
	paths := map[Key]bool{}
	for _, o := range ask.Show {
		if w.in[o] {
			for k := object(o); k != noParent; k = w.parents[k] {
				paths[k] = true
			}
		}
	}
	if ask.Fit < len(paths)+1 || min(ask.Fit, ask.Most)+2*len(paths) > ask.Most {
		return
	}
	for k := range paths {
		if !slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Key == k }) {
			t.Fatalf("%+v is not shown", k)
		}
	}
}

// checkPlaces checks that no cells touch, that owners are above their dependents, and that families do not overlap.
func checkPlaces(t *rapid.T, p *Picture) {
	type rect struct{ left, top, right, bottom float32 }
	cell := func(n *Node) rect {
		return rect{n.X - middle, n.Y - middle, n.X - middle + cellWidth, n.Y - middle + cellHeight}
	}
	overlap := func(a, b rect) bool {
		return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
	}
	families := make([]rect, len(p.Nodes)) // a node with everything below it
	for k := len(p.Nodes) - 1; k >= 0; k-- {
		n := &p.Nodes[k]
		is := cell(n)
		if f := families[k]; f != (rect{}) {
			is = rect{min(is.left, f.left), min(is.top, f.top), max(is.right, f.right), max(is.bottom, f.bottom)}
		}
		families[k] = is
		if is.left < 0 || is.top < 0 || is.right > p.Width || is.bottom > p.Height {
			t.Fatalf("node %d is at %v, outside of %v by %v", k, is, p.Width, p.Height)
		}
		if n.Parent < 0 {
			continue
		}
		if up := &families[n.Parent]; *up == (rect{}) {
			*up = is
		} else {
			*up = rect{min(is.left, up.left), min(is.top, up.top), max(is.right, up.right), max(is.bottom, up.bottom)}
		}
		if up := &p.Nodes[n.Parent]; n.Y < up.Y+deeper {
			t.Fatalf("node %d is at %v, its owner at %v", k, n.Y, up.Y)
		}
	}
	for a := range p.Nodes {
		for b := range a {
			if p.Nodes[a].Parent == p.Nodes[b].Parent && overlap(families[a], families[b]) {
				t.Fatalf("nodes %d and %d overlap: %v, %v", a, b, families[a], families[b])
			}
			if overlap(cell(&p.Nodes[a]), cell(&p.Nodes[b])) {
				t.Fatalf("nodes %d and %d are at one place", a, b)
			}
		}
	}
}

// Numbers of objects that were freed or used again while the graph was copied are no reason to fail.
func TestTornGraph(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := random(t)
		g := drawGraph(t, r)
		for range r.IntN(6) {
			g.Places[r.IntN(len(g.Places))] = r.Uint32N(8)
		}
		g.Places[0], g.Kinds[1+r.IntN(2)] = 0, Kind{} // freed
		p := (&Chart{}).Arrange(g, drawAsk(t, r, g))
		keys := map[Key]bool{}
		for _, n := range p.Nodes {
			if keys[n.Key] {
				t.Fatalf("%+v is shown twice", n.Key)
			}
			keys[n.Key] = true
			if n.Key.Object != 0 && !n.Key.Rest && g.Kinds[n.Place] == (Kind{}) {
				t.Fatalf("%+v is shown, whose place was freed", n.Key)
			}
		}
		checkPlaces(t, p)
	})
}
