package chart

// emit adds the nodes of what is shown, breadth first: what is below a node follows without gaps.
func (c *Chart) emit(g *Graph, p *Picture) {
	c.node, c.below = c.node[:0], sized(c.below, c.used+1)
	top := c.emitBelow(g, p, 0, -1)
	for k := 0; k < len(p.Nodes); k++ { //nolint:intrange // their number grows
		c.below[k] = [2]int32{}
		if at := c.node[k]; at != 0 && c.flags[at]&isOpen != 0 {
			c.below[k] = c.emitBelow(g, p, at, int32(k))
		}
	}
	c.below[len(p.Nodes)] = top
	for k := len(p.Nodes) - 1; k >= 0; k-- {
		n := &p.Nodes[k]
		if n.Parent >= 0 {
			above := &p.Nodes[n.Parent]
			above.Hidden = max(above.Hidden, n.Hidden)
		}
	}
}

// emitBelow adds the nodes below a position, and returns their range.
func (c *Chart) emitBelow(g *Graph, p *Picture, at uint32, parent int32) (below [2]int32) {
	below[0] = int32(len(p.Nodes))
	rest := Node{Parent: parent}
	for q := c.first[at]; q < c.first[at+1]; q++ {
		if c.flags[q]&isShown != 0 {
			c.emitNode(g, p, q, parent)
			continue
		}
		rest.Children++
		rest.Below += c.counts[q]
		if c.order[q] < c.base {
			rest.Below++
		}
		rest.Hidden = max(rest.Hidden, c.states[q], c.worst[q])
	}
	if c.flags[at]&isCut != 0 {
		if parent >= 0 {
			rest.Key = p.Nodes[parent].Key
		}
		rest.Key.Rest = true
		p.Nodes = append(p.Nodes, rest)
		c.node = append(c.node, 0)
	}
	below[1] = int32(len(p.Nodes))
	return below
}

func (c *Chart) emitNode(g *Graph, p *Picture, q uint32, parent int32) {
	p.Nodes = append(p.Nodes, Node{Parent: parent, Children: c.first[q+1] - c.first[q], Below: c.counts[q], State: c.states[q]})
	c.node = append(c.node, q)
	n := &p.Nodes[len(p.Nodes)-1]
	if id := c.order[q]; id < c.base {
		n.Key.Object, n.Place = id, g.Places[id]
	} else {
		is := &c.groups[id-c.base]
		n.Key = Key{Namespace: is.namespace, Resource: is.resource, Group: true}
	}
	if n.Children > 0 && c.flags[q]&isOpen == 0 {
		n.Closed, n.Hidden = true, c.worst[q]
	}
}
