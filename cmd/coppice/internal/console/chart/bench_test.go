package chart

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// deployed returns a graph of n objects in 20 namespaces: Deployments with one ReplicaSet each, which has three Pods, and
// ConfigMaps without owners.
func deployed(n int) *Graph {
	const namespaces = 20
	resources := []string{"deployments.apps", "replicasets.apps", "pods", "pods", "pods", "configmaps"}
	g := &Graph{Places: make([]uint32, n+1), States: make([]State, n+1), First: make([]uint32, 1, n+2), Kinds: []Kind{{}}}
	for in := range namespaces {
		for _, r := range resources {
			g.Kinds = append(g.Kinds, Kind{Resource: r, Namespace: fmt.Sprintf("team-%02d", in)})
		}
	}
	for i := range n {
		number, kind := uint32(i+1), i%len(resources)
		g.Places[number] = uint32(1 + i/len(resources)%namespaces*len(resources) + kind)
		g.First = append(g.First, uint32(len(g.Owners)))
		switch kind {
		case 1:
			g.Owners = append(g.Owners, number-1)
		case 2, 3, 4:
			g.Owners = append(g.Owners, number-uint32(kind)+1)
		}
	}
	g.First = append(g.First, uint32(len(g.Owners)))
	return g
}

// second gives every Pod a second owner, as volumes or jobs of several owners have.
func second(g *Graph) *Graph {
	is := *g
	is.First, is.Owners = nil, nil
	for i := range g.Places {
		is.First = append(is.First, uint32(len(is.Owners)))
		owners := g.Owners[g.First[i]:g.First[i+1]]
		is.Owners = append(is.Owners, owners...)
		if len(owners) > 0 && owners[0]+1 < uint32(i) {
			is.Owners = append(is.Owners, uint32(i)*7%uint32(len(g.Places)-1)+1)
		}
	}
	is.First = append(is.First, uint32(len(is.Owners)))
	return &is
}

// shuffled gives objects other numbers, so that those of one family are far from each other.
func shuffled(g *Graph) *Graph {
	n := len(g.Places)
	to, from := make([]uint32, n), make([]int, n)
	for i, p := range rand.New(rand.NewPCG(1, 2)).Perm(n - 1) {
		to[i+1], from[p+1] = uint32(p+1), i+1
	}
	is := *g
	is.Places, is.First, is.Owners = make([]uint32, n), nil, nil
	for i := range n {
		is.Places[i] = g.Places[from[i]]
		is.First = append(is.First, uint32(len(is.Owners)))
		for _, o := range g.Owners[g.First[from[i]]:g.First[from[i]+1]] {
			is.Owners = append(is.Owners, to[o])
		}
	}
	is.First = append(is.First, uint32(len(is.Owners)))
	return &is
}

// BenchmarkArrange reports the time of a picture for each object of a realm: of all levels that fit in 100,000 nodes, of one
// namespace with all levels, where each Pod has a second owner, and where the numbers of families are far from each other.
func BenchmarkArrange(b *testing.B) {
	namespace := "team-07"
	for _, n := range []int{10_000, 99_000, 100_000, 1_000_000} {
		for _, c := range []struct {
			name  string
			graph func(*Graph) *Graph
			scope Scope
		}{
			{"realm", func(g *Graph) *Graph { return g }, Scope{}},
			{"namespace", func(g *Graph) *Graph { return g }, Scope{Namespace: &namespace}},
			{"second-owners", second, Scope{}},
			{"shuffled", shuffled, Scope{}},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, c.name), func(b *testing.B) {
				g, chart := c.graph(deployed(n)), &Chart{}
				shown := 0
				for b.Loop() {
					shown = len(chart.Arrange(g, &Ask{Scope: c.scope, Fit: 100_000, Most: 150_000}).Nodes)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/object")
				b.ReportMetric(float64(shown), "nodes")
			})
		}
	}
}
