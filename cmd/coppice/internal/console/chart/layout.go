package chart

import "math"

// The measures of a picture, in rows.
const (
	cellWidth  = 3
	cellHeight = 1
	// deeper is how much lower than a node the box of what is below it begins.
	deeper = 1.5
	// deeperGroup is that of a group, whose label takes more space.
	deeperGroup = 2
	gap         = 1
	// groupGap and groupRow are the gaps next to and below what is below a group: larger than those within it, so that it is
	// seen where a namespace ends.
	groupGap = 6
	groupRow = 3
	// groupWidth is the width of a closed group, whose label is longer than that of an object.
	groupWidth = 6
	// middle is where a node is in its cell, from the left and from above.
	middle = 0.5
	// aspect is how many times wider than high boxes should be.
	aspect = 1.6
	// waste is by how much families in rows take more space than their boxes and gaps: those in a row are not as high as the highest.
	waste = 1.6
	// inRow is how many nodes without others below them are in one row, if there is nothing else.
	inRow = 6
	// leastTarget is the least width at which rows of families end, so that opening one of a few does not wrap them again.
	leastTarget = 24
	// manyClosed is how many closed owners below a node have lines; of more only the first row has.
	manyClosed = 200
)

// layout has the boxes of the nodes of a picture.
type layout struct {
	boxes []box // by node; the last is that of what is above everything
}

// box is the space of a node and of what is below it.
type box struct {
	width, height float32
	// columns is that of the block of leaves; target is the width at which rows of other boxes end.
	columns int32
	target  float32
}

// place gives each node its position: the sizes of boxes from below, then their places from above.
func (c *Chart) place(p *Picture) {
	c.boxes = sized(c.boxes, len(p.Nodes)+1)
	for k := len(p.Nodes) - 1; k >= 0; k-- {
		c.boxes[k] = box{width: cellWidth, height: cellHeight}
		if p.Nodes[k].Key.Group {
			c.boxes[k].width = groupWidth
		}
		if c.isOpen(int32(k)) {
			b := c.measure(p, k)
			b.width, b.height = max(b.width, c.boxes[k].width), b.height+depthOf(&p.Nodes[k])
			c.boxes[k] = b
		}
	}
	top := c.measure(p, len(p.Nodes))
	c.boxes[len(p.Nodes)] = top
	p.Width, p.Height = top.width, top.height
	c.fill(p, len(p.Nodes), 0, 0)
	for k := range p.Nodes { // X and Y are those of its box until here
		n := &p.Nodes[k]
		x, y := n.X, n.Y
		n.X, n.Y = x+middle, y+middle
		if c.isOpen(int32(k)) {
			c.fill(p, k, x, y+depthOf(n))
			if n.Key.Group { // it is at the left end, as a heading is
				continue
			}
			n.X = x + float32(math.Floor(float64(c.boxes[k].width-cellWidth)))/2 + middle
		}
	}
}

// depthOf returns how much lower than an open node the box of what is below it begins.
func depthOf(n *Node) float32 {
	if n.Key.Group {
		return deeperGroup
	}
	return deeper
}

// isOpen reports whether something is shown below a node.
func (c *Chart) isOpen(k int32) bool { return c.below[k][0] < c.below[k][1] }

// isLeaf reports whether a node belongs to the block of those with nothing below them. Closed owners do not, so that a family
// that is closed keeps its place among the others.
func isLeaf(n *Node) bool { return n.Children == 0 || n.Key.Rest }

// measure returns the box of what is below a node.
func (c *Chart) measure(p *Picture, k int) (b box) {
	leaves, area := 0, 0.0
	below := c.below[k]
	for d := below[0]; d < below[1]; d++ {
		if isLeaf(&p.Nodes[d]) {
			leaves++
			continue
		}
		width, height := c.gaps(p, d)
		area += float64(c.boxes[d].width+width) * float64(c.boxes[d].height+height)
	}
	room := roomFor(leaves)
	families := int(below[1]-below[0]) - leaves
	b.target = widthFor(math.Sqrt((area*waste + float64(room*cellWidth*cellHeight)) * aspect))
	if families > 0 {
		b.target = max(b.target, leastTarget)
	}
	b.columns = min(int32(room), max(1, int32(b.target)/cellWidth))
	if families == 0 && leaves <= inRow {
		b.columns = int32(room)
	}
	if leaves > 0 {
		rows := (int32(room) + b.columns - 1) / b.columns
		b.width, b.height = float32(b.columns*cellWidth), float32(rows*cellHeight)
	}
	if families > 0 {
		c.rows(p, below, &b, func(int32, float32, float32) {})
	}
	return b
}

// gaps returns the space to the right of a family or a closed owner, and below it. Closed owners stand as close as leaves do.
func (c *Chart) gaps(p *Picture, d int32) (width, height float32) {
	switch {
	case !c.isOpen(d):
		return 0, 0
	case p.Nodes[d].Key.Group:
		return groupGap, groupRow
	}
	return gap, gap
}

// rows puts the families and closed owners below a node into rows below what b has already, and adds their size.
func (c *Chart) rows(p *Picture, below [2]int32, b *box, put func(d int32, x, y float32)) {
	x, y, rows := float32(0), b.height, 0
	if y > 0 {
		y += gap
	}
	var height, space float32 // of the row, and below it
	for d := below[0]; d < below[1]; d++ {
		if isLeaf(&p.Nodes[d]) {
			continue
		}
		is := &c.boxes[d]
		right, under := c.gaps(p, d)
		if !c.isOpen(d) { // closed owners stand in columns, also behind families
			x = float32(math.Ceil(float64(x/is.width))) * is.width
		}
		if x > 0 && x+is.width > b.target {
			x, y, height, space = 0, y+height+space, 0, 0
			rows++
		}
		put(d, x, y)
		b.width = max(b.width, x+is.width)
		x, height, space = x+is.width+right, max(height, is.height), max(space, under)
	}
	if rows > 0 { // room for a wider box
		b.width = max(b.width, min(b.target, widthFor(float64(b.width))))
	}
	b.height = y + height
}

// fill gives the boxes below a node their places, in a box that begins at left and top, and decides which have lines.
func (c *Chart) fill(p *Picture, k int, left, top float32) {
	below, is := c.below[k], &c.boxes[k]
	i, closed, block := int32(0), 0, box{target: is.target}
	for d := below[0]; d < below[1]; d++ {
		n := &p.Nodes[d]
		n.Line = n.Parent >= 0
		if !isLeaf(n) {
			if !c.isOpen(d) {
				closed++
			}
			continue
		}
		n.X, n.Y = left+float32(i%is.columns*cellWidth), top+float32(i/is.columns*cellHeight)
		n.Line = n.Line && i < is.columns
		i++
	}
	if i > 0 {
		block.height = float32((int32(roomFor(int(i))) + is.columns - 1) / is.columns * cellHeight)
	}
	group := k < len(p.Nodes) && p.Nodes[k].Key.Group
	first := float32(-1)
	c.rows(p, below, &block, func(d int32, x, y float32) {
		n := &p.Nodes[d]
		n.X, n.Y = left+x, top+y
		if first < 0 {
			first = y
		}
		switch {
		case group: // nothing depends on it: its lines would cross what is above
			n.Line = n.Line && y == 0
		case closed > manyClosed && !c.isOpen(d):
			n.Line = n.Line && y == first
		}
	})
}

// roomFor returns for how many leaves a block with n of them has room: 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on.
func roomFor(n int) int {
	if n <= 1 {
		return n
	}
	for room := 2; ; room *= 2 {
		switch {
		case n <= room:
			return room
		case n <= room+room/2:
			return room + room/2
		}
	}
}

// widths are the widths of boxes with several rows: each is about a quarter larger than the one before.
var widths = func() (list []float32) {
	for w := float64(cellWidth); w < 1<<24; w = math.Max(w+1, math.Ceil(w*1.25)) {
		list = append(list, float32(w))
	}
	return list
}()

// widthFor returns the least of the widths that is at least w.
func widthFor(w float64) float32 {
	for _, is := range widths {
		if float64(is) >= w {
			return is
		}
	}
	return widths[len(widths)-1]
}
