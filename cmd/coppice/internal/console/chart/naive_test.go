package chart

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// naive is the forest of a graph, by the definitions.
type naive struct {
	g       *Graph
	in      map[uint32]bool
	parents map[Key]Key // of what is on top, noParent
	order   []Key       // as what is below the same parent is ordered
	depths  map[Key]int
}

var noParent = Key{Object: 1<<32 - 1}

// restOf returns the key of the node for those below a parent that did not fit.
func restOf(parent Key) Key {
	if parent == noParent {
		parent = Key{}
	}
	parent.Rest = true
	return parent
}

func object(i uint32) Key { return Key{Object: i} }

func (w *naive) owners(i uint32) (list []uint32) {
	for _, o := range w.g.Owners[w.g.First[i]:w.g.First[i+1]] {
		if int(o) < len(w.g.Places) && w.g.Places[o] != 0 && o != i && w.in[o] {
			list = append(list, o)
		}
	}
	return list
}

func newNaive(g *Graph, s *Scope) *naive {
	w := &naive{g: g, in: map[uint32]bool{}, parents: map[Key]Key{}, depths: map[Key]int{}}
	w.enter(s)
	w.adopt(s.Root)
	if s.Root == 0 {
		w.group()
	}
	for i := range uint32(len(g.Places)) {
		if w.in[i] {
			w.order = append(w.order, object(i))
		}
	}
	for _, k := range w.order {
		for at := k; at != noParent; at = w.parents[at] {
			w.depths[k]++
		}
	}
	return w
}

func (w *naive) enter(s *Scope) {
	for i, p := range w.g.Places {
		if p != 0 && (s.Root == 0 || s.Root == uint32(i)) && (s.Namespace == nil || w.g.Kinds[p].Namespace == *s.Namespace) && (w.g.Labelled == nil || w.g.Labelled[i]) {
			w.in[uint32(i)] = true
		}
	}
	for grows := true; grows; {
		grows = false
		for i, p := range w.g.Places {
			if p != 0 && !w.in[uint32(i)] && len(w.owners(uint32(i))) > 0 {
				w.in[uint32(i)], grows = true, true
			}
		}
	}
}

func (w *naive) adopt(root uint32) {
	for i := range w.in {
		w.parents[object(i)] = noParent
		if owners := w.owners(i); len(owners) > 0 && i != root {
			w.parents[object(i)] = object(owners[0])
		}
	}
	for _, i := range slices.Sorted(maps.Keys(w.in)) { // the first of a cycle is the lowest
		for at, steps := w.parents[object(i)], 0; at != noParent && steps <= len(w.in); at, steps = w.parents[at], steps+1 {
			if at == object(i) {
				w.parents[at] = noParent
				break
			}
		}
	}
}

func (w *naive) group() {
	tops := map[Kind]int{}
	spaces := map[string]bool{}
	for i := range w.in {
		if w.parents[object(i)] == noParent {
			k := w.g.Kinds[w.g.Places[i]]
			tops[k]++
			spaces[k.Namespace] = true
		}
	}
	groups := map[Key]bool{}
	for i := range w.in {
		if w.parents[object(i)] != noParent {
			continue
		}
		k := w.g.Kinds[w.g.Places[i]]
		above := noParent
		if len(spaces) > 1 {
			above = Key{Group: true, Namespace: k.Namespace}
			w.parents[above], groups[above] = noParent, true
		}
		if tops[k] > alone {
			of := Key{Group: true, Namespace: k.Namespace, Resource: k.Resource}
			w.parents[of], groups[of] = above, true
			above = of
		}
		w.parents[object(i)] = above
	}
	for _, namespace := range slices.Sorted(maps.Keys(spaces)) {
		if namespace != "" {
			w.order = append(w.order, sortedGroups(groups, namespace)...)
		}
	}
	w.order = append(w.order, sortedGroups(groups, "")...)
}

func sortedGroups(groups map[Key]bool, namespace string) (list []Key) {
	of := map[string]Key{}
	for k := range groups {
		if k.Namespace == namespace {
			of[k.Resource] = k
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(of)) {
		list = append(list, of[resource])
	}
	return list
}

func (w *naive) below(k Key) (list []Key) {
	for _, d := range w.order {
		if w.parents[d] == k {
			list = append(list, d)
		}
	}
	return list
}

func (w *naive) state(k Key) State {
	if k.Group {
		return Present
	}
	return w.g.States[k.Object]
}

// isBelow reports whether a key is below another one.
func (w *naive) isBelow(k, above Key) bool {
	if _, is := w.parents[k]; !is {
		return false
	}
	for at := w.parents[k]; at != noParent; at = w.parents[at] {
		if at == above {
			return true
		}
	}
	return false
}

// depth returns how many levels fit, and how many there are.
func (w *naive) depth(fit int) (depth, levels int) {
	sizes := map[int]int{}
	for _, d := range w.depths {
		sizes[d]++
		levels = max(levels, d)
	}
	for sum := 0; depth < levels && sum+sizes[depth+1] <= fit; depth++ {
		sum += sizes[depth+1]
	}
	return depth, levels
}

// shown returns what is shown if there is room for everything.
func (w *naive) shown(ask *Ask, depth int) map[Key]bool {
	opens := func(k Key) bool {
		orBelow := func(o Key) bool { return o == k || w.isBelow(o, k) }
		leads := slices.ContainsFunc(ask.Show, func(o uint32) bool { return w.isBelow(object(o), k) })
		return leads || !slices.Contains(ask.Shut, k) && (w.depths[k] < depth || slices.ContainsFunc(ask.Open, orBelow))
	}
	set := map[Key]bool{}
	for {
		n := len(set)
		for _, k := range w.order {
			if up := w.parents[k]; up == noParent || set[up] && opens(up) {
				set[k] = true
			}
		}
		if len(set) == n {
			return set
		}
	}
}

// compare checks what a picture says about objects.
func (w *naive) compare(t *rapid.T, ask *Ask, p *Picture) {
	if p.Objects != len(w.in) {
		t.Fatalf("%d objects, want %d", p.Objects, len(w.in))
	}
	var totals [States]int
	for i := range w.in {
		totals[w.g.States[i]]++
	}
	depth, levels := w.depth(min(ask.Fit, ask.Most))
	if p.Totals != totals || p.Depth != depth || p.Levels != levels {
		t.Fatalf("totals %v, levels %d of %d; want %v, %d of %d", p.Totals, p.Depth, p.Levels, totals, depth, levels)
	}
	set := map[Key]bool{}
	for _, n := range p.Nodes {
		if set[n.Key] {
			t.Fatalf("%+v is shown twice", n.Key)
		}
		set[n.Key] = true
	}
	if want := w.shown(ask, depth); !p.Full && !maps.Equal(set, want) {
		t.Fatalf("shown is %v, want %v", set, want)
	}
	for k, n := range p.Nodes {
		if n.Parent >= int32(k) {
			t.Fatalf("node %d is below node %d, which follows", k, n.Parent)
		}
		w.compareNode(t, p, &n, set)
	}
	w.compareOthers(t, p, set)
	var outside []uint32
	for _, o := range ask.Show {
		if !w.in[o] {
			outside = append(outside, o)
		}
	}
	if !slices.Equal(p.Outside, outside) {
		t.Fatalf("outside are %v, want %v", p.Outside, outside)
	}
}

func (w *naive) compareNode(t *rapid.T, p *Picture, n *Node, set map[Key]bool) {
	parent, above := noParent, n.Key
	if n.Parent >= 0 {
		parent = p.Nodes[n.Parent].Key
	}
	if n.Key.Rest {
		above = parent
	} else if w.parents[n.Key] != parent {
		t.Fatalf("%+v is below %+v, want %+v", n.Key, parent, w.parents[n.Key])
	}
	var want Node
	shownBelow := 0
	for _, d := range w.order {
		direct := w.parents[d] == above
		if direct && set[d] {
			shownBelow++
		}
		is := direct || above == noParent || w.isBelow(d, above)
		if n.Key.Rest && is { // only those that are not shown, and what is below them
			top := d
			for w.parents[top] != above {
				top = w.parents[top]
			}
			is = !set[top]
			direct = direct && is
		}
		if direct {
			want.Children++
		}
		if is && !d.Group {
			want.Below++
		}
		if is && !set[d] {
			want.Hidden = max(want.Hidden, w.state(d))
		}
	}
	rest := restOf(n.Key)
	if !n.Key.Rest {
		want.State, want.Closed = w.state(n.Key), want.Children > 0 && shownBelow == 0 && !set[rest]
		if n.Key.Object != 0 {
			want.Place = w.g.Places[n.Key.Object]
		}
	}
	got := Node{Children: n.Children, Below: n.Below, Hidden: n.Hidden, State: n.State, Closed: n.Closed, Place: n.Place}
	if got != want {
		t.Fatalf("%+v is %+v, want %+v", n.Key, got, want)
	}
	if n.Closed || n.Key.Rest {
		return
	}
	hidden := 0
	for _, d := range w.below(n.Key) {
		if !set[d] {
			hidden++
		}
	}
	if (hidden > 0) != set[rest] {
		t.Fatalf("below %+v %d are not shown, and the node for the rest is there: %v", n.Key, hidden, set[rest])
	}
}

// lifted returns the nearest node that is shown.
func (w *naive) lifted(k Key, set map[Key]bool) Key {
	for ; !set[k]; k = w.parents[k] {
		if rest := restOf(w.parents[k]); set[rest] {
			return rest
		}
	}
	return k
}

func (w *naive) compareOthers(t *rapid.T, p *Picture, set map[Key]bool) {
	want := map[[2]Key]bool{}
	for i := range w.in {
		for _, o := range w.owners(i) {
			from, to := w.lifted(object(o), set), w.lifted(object(i), set)
			above := w.parents[to]
			if to.Rest { // the other fields are those of its parent
				if above = to; to == restOf(noParent) {
					above = noParent
				}
				above.Rest = false
			}
			if from != to && above != from {
				want[[2]Key{from, to}] = true
			}
		}
	}
	got := map[[2]Key]bool{}
	for _, o := range p.Others {
		got[[2]Key{p.Nodes[o[0]].Key, p.Nodes[o[1]].Key}] = true
	}
	if !maps.Equal(got, want) || len(got) != len(p.Others) {
		t.Fatalf("other owners are %v, want %v", p.Others, want)
	}
}
