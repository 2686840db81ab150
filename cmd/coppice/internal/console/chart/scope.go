package chart

import (
	"cmp"
	"slices"
)

// alone is how many objects of a kind without owners are shown without a node for their kind.
const alone = 500

// group stands for the objects without owners in a namespace, or for those of one resource there.
type group struct{ namespace, resource string }

// choosePlaces finds out which places have a name: the number of one that does not may have been freed while the graph was copied.
func (f *forest) choosePlaces(g *Graph) {
	f.usable = sized(f.usable, len(g.Kinds))
	for i := range g.Kinds {
		f.usable[i] = i > 0 && g.Kinds[i].Resource != ""
	}
}

// enter finds out which objects are in the scope: those that match, and everything that depends on them.
func (f *forest) enter(g *Graph, s *Scope) {
	f.choosePlaces(g)
	f.in = sized(f.in, len(g.Places))
	is := func(i int) bool { return int(g.Places[i]) < len(f.usable) && f.usable[g.Places[i]] }
	if s.Namespace == nil && s.Root == 0 && len(s.Roots) == 0 && g.Labelled == nil {
		for i := range f.in {
			f.in[i] = i > 0 && is(i)
		}
		return
	}
	for i := range f.in {
		f.in[i] = i > 0 && is(i) && (s.Root == 0 || s.Root == uint32(i)) && (g.Labelled == nil || g.Labelled[i]) &&
			(s.Namespace == nil || g.Kinds[g.Places[i]].Namespace == *s.Namespace)
	}
	if len(s.Roots) > 0 {
		f.keepRoots(s.Roots)
	}
	f.spread(g, is)
}

// keepRoots takes all but the roots out of the scope.
func (f *forest) keepRoots(roots []uint32) {
	var kept []uint32
	for _, r := range roots {
		if r < f.base && f.in[r] {
			kept = append(kept, r)
		}
	}
	clear(f.in)
	for _, r := range kept {
		f.in[r] = true
	}
}

// spread adds everything that depends on what is in the scope.
func (f *forest) spread(g *Graph, is func(int) bool) {
	n := len(f.in)
	f.starts = zeroed(f.starts, n+2)
	for i := 1; i < n; i++ {
		for _, o := range g.Owners[g.First[i]:g.First[i+1]] {
			if int(o) < n {
				f.starts[o+2]++
			}
		}
	}
	for i := 2; i < len(f.starts); i++ {
		f.starts[i] += f.starts[i-1]
	}
	f.dependents = sized(f.dependents, int(f.starts[n+1]))
	for i := 1; i < n; i++ {
		for _, o := range g.Owners[g.First[i]:g.First[i+1]] {
			if int(o) < n {
				f.dependents[f.starts[o+1]] = uint32(i)
				f.starts[o+1]++
			}
		}
	}
	f.order = f.order[:0]
	for i := range f.in {
		if f.in[i] {
			f.order = append(f.order, uint32(i))
		}
	}
	for at := 0; at < len(f.order); at++ {
		id := f.order[at]
		for _, d := range f.dependents[f.starts[id]:f.starts[id+1]] {
			if !f.in[d] && is(int(d)) {
				f.in[d] = true
				f.order = append(f.order, d)
			}
		}
	}
}

// groupTops puts the objects without parent below groups, if there are so many that they need some. Groups are in the order of
// namespaces and resources; those without a namespace come last.
func (f *forest) groupTops(g *Graph, grouped bool) {
	f.groups = f.groups[:0]
	if !grouped {
		return
	}
	f.tops, f.groupOf = zeroed(f.tops, len(g.Kinds)), zeroed(f.groupOf, len(g.Kinds))
	f.places = f.places[:0]
	for i := range f.in {
		if f.in[i] && f.parents[i] == 0 {
			p := g.Places[i]
			if f.tops[p] == 0 {
				f.places = append(f.places, p)
			}
			f.tops[p]++
		}
	}
	if len(f.places) == 0 {
		return
	}
	slices.SortFunc(f.places, func(a, b uint32) int {
		x, y := &g.Kinds[a], &g.Kinds[b]
		return cmp.Or(compareNamespaces(x.Namespace, y.Namespace), cmp.Compare(x.Resource, y.Resource), cmp.Compare(a, b))
	})
	several := g.Kinds[f.places[0]].Namespace != g.Kinds[f.places[len(f.places)-1]].Namespace
	above := uint32(0) // the group of the namespace
	for from := 0; from < len(f.places); {
		k, to, count := g.Kinds[f.places[from]], from, uint32(0)
		for ; to < len(f.places) && g.Kinds[f.places[to]] == k; to++ { // places of two kinds may have one resource
			count += f.tops[f.places[to]]
		}
		if several && (from == 0 || g.Kinds[f.places[from-1]].Namespace != k.Namespace) {
			above = f.addGroup(group{namespace: k.Namespace}, 0)
		}
		in := above
		if count > alone {
			in = f.addGroup(group{k.Namespace, k.Resource}, above)
		}
		for _, p := range f.places[from:to] {
			f.groupOf[p] = in
		}
		from = to
	}
	if len(f.groups) == 0 {
		return
	}
	for i := range f.in {
		if f.in[i] && f.parents[i] == 0 {
			f.parents[i] = f.groupOf[g.Places[i]]
		}
	}
}

// compareNamespaces orders namespaces by their names, and none behind all others.
func compareNamespaces(a, b string) int {
	if (a == "") != (b == "") {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// addGroup returns the id of a new group.
func (f *forest) addGroup(is group, below uint32) uint32 {
	f.groups = append(f.groups, is)
	f.parents = append(f.parents, below)
	return f.base + uint32(len(f.groups)-1)
}
