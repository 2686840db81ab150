package mirror

// forest counts what is below each node of a forest that changes, in O(log n) amortized for each call, however deep the
// forest is. It is a link-cut tree (Sleator and Tarjan) that keeps, for each node, sums over its subtree.
type forest struct{ nodes slab[link] }

// link is a node of the forest. Its numbers are those of the objects.
type link struct {
	child  [2]uint32
	parent uint32
	// size counts the nodes of the splay tree below the link and of the subtrees that hang from them; hanging counts
	// those of the subtrees that hang from this link.
	size, hanging uint32
	// more counts the references to nodes of the subtree that are no edges of the forest; moreHanging is to more what
	// hanging is to size. It includes those to this node.
	more, moreHanging uint32
}

// reset makes a new node, without parent and children.
func (f *forest) reset(id uint32) {
	for f.nodes.last < id {
		f.nodes.add()
	}
	*f.nodes.at(id) = link{size: 1}
}

func (f *forest) sum(id uint32) {
	l := f.nodes.at(id)
	l.size, l.more = 1+l.hanging, l.moreHanging
	for _, c := range l.child {
		if c != 0 {
			l.size += f.nodes.at(c).size
			l.more += f.nodes.at(c).more
		}
	}
}

// isTop reports whether a link is the root of its splay tree.
func (f *forest) isTop(id uint32) bool {
	p := f.nodes.at(id).parent
	if p == 0 {
		return true
	}
	c := f.nodes.at(p).child
	return c[0] != id && c[1] != id
}

func (f *forest) rotate(id uint32) {
	l := f.nodes.at(id)
	p := l.parent
	parent := f.nodes.at(p)
	side := 0
	if parent.child[1] == id {
		side = 1
	}
	if !f.isTop(p) {
		above := f.nodes.at(parent.parent)
		if above.child[0] == p {
			above.child[0] = id
		} else {
			above.child[1] = id
		}
	}
	moved := l.child[1-side]
	parent.child[side] = moved
	if moved != 0 {
		f.nodes.at(moved).parent = p
	}
	l.child[1-side], l.parent = p, parent.parent
	parent.parent = id
	f.sum(p)
	f.sum(id)
}

func (f *forest) splay(id uint32) {
	for !f.isTop(id) {
		p := f.nodes.at(id).parent
		if !f.isTop(p) {
			if g := f.nodes.at(p).parent; (f.nodes.at(g).child[0] == p) == (f.nodes.at(p).child[0] == id) {
				f.rotate(p)
			} else {
				f.rotate(id)
			}
		}
		f.rotate(id)
	}
}

// access makes the path from a node up to its root a splay tree with the node at its top.
func (f *forest) access(id uint32) {
	last := uint32(0)
	for at := id; at != 0; at = f.nodes.at(at).parent {
		f.splay(at)
		l := f.nodes.at(at)
		if r := l.child[1]; r != 0 {
			l.hanging += f.nodes.at(r).size
			l.moreHanging += f.nodes.at(r).more
		}
		if last != 0 {
			l.hanging -= f.nodes.at(last).size
			l.moreHanging -= f.nodes.at(last).more
		}
		l.child[1] = last
		f.sum(at)
		last = at
	}
	f.splay(id)
}

// root returns the root of the tree of a node.
func (f *forest) root(id uint32) uint32 {
	f.access(id)
	for f.nodes.at(id).child[0] != 0 {
		id = f.nodes.at(id).child[0]
	}
	f.splay(id)
	return id
}

// join puts the tree of the root id below a node of another tree.
func (f *forest) join(id, below uint32) {
	f.access(id)
	f.access(below)
	f.nodes.at(id).parent = below
	b := f.nodes.at(below)
	b.hanging += f.nodes.at(id).size
	b.moreHanging += f.nodes.at(id).more
	f.sum(below)
}

// cut makes a node the root of a tree of its own, with what is below it.
func (f *forest) cut(id uint32) {
	f.access(id)
	l := f.nodes.at(id)
	f.nodes.at(l.child[0]).parent = 0
	l.child[0] = 0
	f.sum(id)
}

// addMore changes the number of references to a node that are no edges of the forest.
func (f *forest) addMore(id uint32, by int) {
	f.access(id)
	l := f.nodes.at(id)
	l.moreHanging = uint32(int(l.moreHanging) + by)
	f.sum(id)
}

// below counts the nodes below a node. If exact is false, there are others: references that are no edges of the forest
// lead to them.
func (f *forest) below(id uint32) (n uint32, exact bool) {
	f.access(id)
	l := f.nodes.at(id)
	return l.hanging, l.moreHanging == 0
}
