package chart

// forest has what is in the scope, each object below one owner or group.
//
// Ids are the numbers of objects; from the number of places on, groups; and 0 is what is above everything. Positions are those
// of a breadth-first walk: 0 is again what is above everything, and what is below a position is a range of positions. Passes
// over positions read memory in its order.
type forest struct {
	in      []bool // by id: the object is in the scope
	parents []uint32
	// starts and dependents are lists by id: what is below id is dependents[starts[id]:starts[id+1]].
	starts, dependents []uint32
	colours            []uint32
	groups             []group
	groupOf            []uint32 // by place
	tops               []uint32 // by place, how many objects without parent
	usable             []bool   // by place
	places             []uint32 // those with objects without parent

	objects int
	totals  [States]int
	// seconds: there are references to owners that are not the parent.
	seconds bool

	order  []uint32 // the id of a position
	up     []uint32 // the position above
	first  []uint32 // the first position below; first[p+1] is the end
	states []State  // of what is at a position
	counts []uint32 // how many objects are below a position
	worst  []State  // the most severe state below a position
	levels []uint32 // the end of each level, as a position
	at     []uint32 // by id, the position; see locate
	base   uint32   // the id of the first group
	above  []bool   // by position, that it is above an object that Next looks for
}

// plant builds the forest of a scope.
func (f *forest) plant(g *Graph, s *Scope) {
	f.base = uint32(len(g.Places))
	f.objects, f.totals, f.seconds = 0, [States]int{}, false
	f.at = f.at[:0]
	f.enter(g, s)
	f.adopt(g, s.Root)
	f.groupTops(g, s.Root == 0 && len(s.Roots) == 0)
	f.link(f.parents)
	f.walk()
	f.sum(g)
}

// adopt gives each object its parent: the first of its owners in the scope. If that is a cycle, the lowest number has none. The
// root of a scope has none.
func (f *forest) adopt(g *Graph, root uint32) {
	f.parents = sized(f.parents, len(f.in))
	ascending := true // no object is below one with a higher number, so that there are no cycles
	for i := range f.in {
		f.parents[i] = 0
		if !f.in[i] {
			continue
		}
		f.objects++
		f.totals[g.States[i]]++
		owners := g.Owners[g.First[i]:g.First[i+1]]
		found := uint32(i) == root
		for _, o := range owners {
			switch {
			case o >= f.base || !f.in[o] || o == uint32(i):
			case found:
				f.seconds = true
			default:
				found = true
				f.parents[i] = o
				ascending = ascending && o < uint32(i)
			}
		}
	}
	if !ascending {
		f.cutCycles()
	}
}

// cutCycles follows parents from each object on, with the number of the object as a colour. What already has a colour is not
// followed again, so that all steps together are as many as objects.
func (f *forest) cutCycles() {
	f.colours = zeroed(f.colours, len(f.parents))
	for i := range f.parents {
		colour, at := uint32(i), uint32(i)
		for at != 0 && f.colours[at] == 0 {
			f.colours[at] = colour
			at = f.parents[at]
		}
		if at == 0 || f.colours[at] != colour {
			continue
		}
		lowest := at
		for next := f.parents[at]; next != at; next = f.parents[next] {
			lowest = min(lowest, next)
		}
		f.parents[lowest] = 0
		f.seconds = true
	}
}

// link lists what is below each id, in the order of ids, groups before objects.
func (f *forest) link(parents []uint32) {
	f.starts = zeroed(f.starts, len(parents)+2)
	f.dependents = sized(f.dependents, f.objects+len(f.groups))
	for id := 1; id < len(parents); id++ {
		if f.has(id) {
			f.starts[parents[id]+2]++
		}
	}
	for i := 2; i < len(f.starts); i++ {
		f.starts[i] += f.starts[i-1]
	}
	put := func(id int) {
		at := &f.starts[parents[id]+1]
		f.dependents[*at] = uint32(id)
		*at++
	}
	for id := int(f.base); id < len(parents); id++ {
		put(id)
	}
	for id := 1; id < int(f.base); id++ {
		if f.in[id] {
			put(id)
		}
	}
}

// has reports whether an id is in the forest.
func (f *forest) has(id int) bool { return id >= int(f.base) || f.in[id] }

// walk gives everything its position, and finds the levels.
func (f *forest) walk() {
	n := 1 + f.objects + len(f.groups)
	f.order, f.up, f.first = sized(f.order, n), sized(f.up, n), sized(f.first, n+1)
	f.order[0], f.up[0] = 0, 0
	end := uint32(1)
	for p := range n {
		id := f.order[p]
		f.first[p] = end
		for _, d := range f.dependents[f.starts[id]:f.starts[id+1]] {
			f.order[end], f.up[end] = d, uint32(p)
			end++
		}
	}
	f.first[n] = end
	f.levels = f.levels[:0]
	for from, to := f.first[0], f.first[1]; from < to; from, to = to, f.first[to] {
		f.levels = append(f.levels, to)
	}
}

// sum counts the objects below each position, and finds the most severe state there.
func (f *forest) sum(g *Graph) {
	n := len(f.order)
	f.states, f.counts, f.worst = sized(f.states, n), zeroed(f.counts, n), zeroed(f.worst, n)
	for p := n - 1; p > 0; p-- {
		up, id := f.up[p], f.order[p]
		f.states[p] = Present
		if id < f.base {
			f.states[p] = g.States[id]
			f.counts[up]++
		}
		f.counts[up] += f.counts[p]
		f.worst[up] = max(f.worst[up], f.worst[p], f.states[p])
	}
}

// locate fills at.
func (f *forest) locate() {
	if len(f.at) > 0 {
		return
	}
	f.at = zeroed(f.at, int(f.base)+len(f.groups))
	for p := 1; p < len(f.order); p++ {
		f.at[f.order[p]] = uint32(p)
	}
}
