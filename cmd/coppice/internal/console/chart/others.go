package chart

// lifted has what lift needs.
type lifted struct {
	nodes  []int32    // by position, the nearest node that is shown
	pairs  [][2]int32 // in the order of dependents
	unique []int32    // by node, one more than the last dependent with which the owner was found
	counts []int32    // by node
}

// examined is how many pairs lift looks at for each that is shown at most: closed nodes have many that are the same.
const examined = 8

// lift finds the references to owners that are not the parent, between the nearest nodes that are shown.
func (c *Chart) lift(g *Graph, p *Picture, most int) {
	c.locate()
	l := &c.lifted
	l.nodes = sized(l.nodes, len(c.order))
	for k, at := range c.node {
		if at != 0 {
			l.nodes[at] = int32(k)
		}
	}
	for at := uint32(1); at < uint32(len(c.order)); at++ {
		up := c.up[at]
		switch {
		case c.flags[at]&isShown != 0:
		case c.flags[up]&isOpen == 0:
			l.nodes[at] = l.nodes[up]
		case up == 0: // it is among those that did not fit, the last node below
			l.nodes[at] = c.below[len(p.Nodes)][1] - 1
		default:
			l.nodes[at] = c.below[l.nodes[up]][1] - 1
		}
	}
	l.pairs, l.counts = l.pairs[:0], zeroed(l.counts, len(p.Nodes)+1)
	for i := range c.in {
		if !c.in[i] {
			continue
		}
		for _, o := range g.Owners[g.First[i]:g.First[i+1]] {
			if o >= c.base || !c.in[o] || o == c.parents[i] {
				continue
			}
			owner, dependent := l.nodes[c.at[o]], l.nodes[c.at[i]]
			if owner != dependent && p.Nodes[dependent].Parent != owner {
				if len(l.pairs) == examined*most {
					p.OthersLeft++
					continue
				}
				l.pairs = append(l.pairs, [2]int32{owner, dependent})
				l.counts[dependent+1]++
			}
		}
	}
	l.sort(p)
	if left := len(p.Others) - most; left > 0 {
		p.OthersLeft += left
		p.Others = p.Others[:most]
	}
}

// sort adds the pairs to Others, by their dependents, each once.
func (l *lifted) sort(p *Picture) {
	for i := 1; i < len(l.counts); i++ {
		l.counts[i] += l.counts[i-1]
	}
	p.Others = sized(p.Others, len(l.pairs))
	for _, pair := range l.pairs {
		at := &l.counts[pair[1]]
		p.Others[*at] = pair
		*at++
	}
	l.unique = zeroed(l.unique, len(p.Nodes))
	kept := p.Others[:0]
	for _, pair := range p.Others {
		if l.unique[pair[0]] != pair[1]+1 {
			l.unique[pair[0]] = pair[1] + 1
			kept = append(kept, pair)
		}
	}
	p.Others = kept
}
