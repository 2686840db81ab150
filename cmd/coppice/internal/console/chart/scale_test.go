package chart

import (
	"math/rand/v2"
	"testing"
)

// owned returns a graph of n pods with the owners that a function says; 0 is none.
func owned(n int, owner func(i uint32) uint32) *Graph {
	g := &Graph{Places: make([]uint32, n+1), States: make([]State, n+1), First: []uint32{0}, Kinds: []Kind{{}, {"pods", "shop"}}}
	for i := uint32(1); i <= uint32(n); i++ {
		g.Places[i] = 1
		g.First = append(g.First, uint32(len(g.Owners)))
		if o := owner(i); o != 0 {
			g.Owners = append(g.Owners, o)
		}
	}
	g.First = append(g.First, uint32(len(g.Owners)))
	return g
}

// Large graphs of any shape are arranged; none of them takes a stack or a time that grows faster than they do.
func TestShapes(t *testing.T) {
	t.Parallel()
	const n = 200_000
	all := &Ask{Fit: n, Most: n}
	for name, c := range map[string]struct {
		owner  func(i uint32) uint32
		ask    *Ask
		nodes  int
		levels int
		full   bool
	}{
		"chain":              {func(i uint32) uint32 { return i - 1 }, all, n, n, false},
		"chain upwards":      {func(i uint32) uint32 { return (i + 1) % (n + 1) }, all, n, n, false},
		"cycle":              {func(i uint32) uint32 { return i%n + 1 }, all, n, n, false},
		"star":               {func(i uint32) uint32 { return min(i-1, 1) }, all, n, 2, false},
		"star closed":        {func(i uint32) uint32 { return min(i-1, 1) }, &Ask{Fit: n - 1, Most: n}, 1, 2, false},
		"star that is large": {func(i uint32) uint32 { return min(i-1, 1) }, &Ask{Fit: 10, Most: n / 2, Open: []Key{object(1)}}, n / 2, 2, true},
		"end of a chain":     {func(i uint32) uint32 { return i - 1 }, &Ask{Fit: 10, Most: n / 2, Show: []uint32{n}}, n / 2, n, true},
		"many cycles":        {func(i uint32) uint32 { return (i - 1) ^ 1 + 1 }, all, n/2 + 1, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var chart Chart
			p := chart.Arrange(owned(n, c.owner), c.ask)
			if len(p.Nodes) != c.nodes || p.Levels != c.levels || p.Full != c.full || p.Objects != n {
				t.Errorf("%d nodes of %d objects, %d levels, full %v; want %d, %d, %d, %v", len(p.Nodes), p.Objects, p.Levels, p.Full, c.nodes, n, c.levels, c.full)
			}
		})
	}
}

// A new dependent of one of many owners moves nothing, as a rule: families keep room for some more.
func TestNewObjectsMoveFew(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	const owners, middle = 40, 400
	n := owners + middle + 8000
	of := make([]uint32, n+1)
	for i := owners + 1; i <= owners+middle; i++ {
		of[i] = 1 + r.Uint32N(owners)
	}
	for i := owners + middle + 1; i <= n; i++ {
		of[i] = owners + 1 + r.Uint32N(middle)
	}
	ask := &Ask{Fit: 100_000, Most: 100_000}
	var chart Chart
	arrange := func() map[Key][2]float32 {
		places := map[Key][2]float32{}
		for _, n := range chart.Arrange(owned(len(of)-1, func(i uint32) uint32 { return of[i] }), ask).Nodes {
			places[n.Key] = [2]float32{n.X, n.Y}
		}
		return places
	}
	const steps = 200
	quiet, before := 0, arrange()
	for range steps {
		of = append(of, owners+1+r.Uint32N(middle))
		after, moved := arrange(), 0
		for k, at := range before {
			if after[k] != at {
				moved++
			}
		}
		if moved == 0 {
			quiet++
		}
		before = after
	}
	t.Logf("%d of %d new objects moved nothing", quiet, steps)
	if quiet < steps/2 {
		t.Errorf("%d of %d new objects moved nothing, want at least half", quiet, steps)
	}
}
