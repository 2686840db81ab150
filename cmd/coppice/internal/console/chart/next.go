package chart

// Next returns the number of the next object of a scope that has a state, behind the object with the number after in the order
// of levels; behind the last one follows the first. 0 is no object. Objects with others in the state below them are left
// out: with Blocked, they wait for these others.
func (c *Chart) Next(g *Graph, s *Scope, state State, after uint32) uint32 {
	c.plant(g, s)
	if c.totals[state] == 0 {
		return 0
	}
	c.locate()
	n := uint32(len(c.order))
	c.above = zeroed(c.above, int(n))
	first, next, behind := uint32(0), uint32(0), uint32(0)
	if after < c.base {
		behind = c.at[after]
	}
	for p := n - 1; p > 0; p-- {
		has := c.order[p] < c.base && c.states[p] == state
		if has && !c.above[p] {
			if first = p; p > behind {
				next = p
			}
		}
		if has || c.above[p] {
			c.above[c.up[p]] = true
		}
	}
	if next == 0 {
		next = first
	}
	return c.order[next]
}
