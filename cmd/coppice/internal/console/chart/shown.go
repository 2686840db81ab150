package chart

import (
	"cmp"
	"slices"
)

// shown has what of a forest is shown.
type shown struct {
	flags []flag // by position
	used  int    // how many nodes are shown
	most  int
	// node has what a node of the picture stands for: a position, or 0 if it is for those that did not fit.
	node []uint32
	// below is the range of nodes below a node of the picture. That of what is above everything is the last.
	below [][2]int32
}

type flag uint8

const (
	// isShown: there is a node for it.
	isShown flag = 1 << iota
	// isOpen: what is below it is shown; with isCut, only some of it.
	isOpen
	isCut
	// isAsked: the page has opened it, or something below it.
	isAsked
	// isShut: the page has closed it.
	isShut
	// leads: it is above an object of Show.
	leads
	// isSought: it is an object of Show.
	isSought

	anything flag = 0
)

// precedence is what is shown first where not everything fits.
var precedence = [...]flag{leads | isSought, isAsked, anything}

// choose decides what is shown: first what is by default, then the objects of Show, then what the page has opened.
func (c *Chart) choose(ask *Ask, p *Picture) {
	c.flags = zeroed(c.flags, len(c.order))
	c.used, c.most = 0, max(ask.Most, 1)
	c.mark(ask, p)
	fit := min(max(ask.Fit, 1), c.most)
	for _, end := range c.levels {
		if int(end)-1 > fit {
			break
		}
		p.Depth++
	}
	p.Full = !c.reveal(0, fit)
	byDefault := uint32(1) // the positions before it are open
	if p.Depth > 1 {
		byDefault = c.levels[p.Depth-2]
	}
	for at := uint32(1); at < byDefault; at++ {
		if c.opens(at) {
			c.reveal(at, fit)
		}
	}
	c.lead(byDefault, p)
	for at := byDefault; at < uint32(len(c.flags)); at++ {
		if c.flags[at]&(isAsked|isOpen) == isAsked && c.opens(at) && !c.reveal(at, c.most-c.used) {
			p.Full = true
		}
	}
}

// lead opens what is above the objects of Show, from a position on. If not everything there fits, it keeps room for these objects.
func (c *Chart) lead(from uint32, p *Picture) {
	kept := 0
	for at := from; at < uint32(len(c.flags)); at++ {
		if c.flags[at]&leads != 0 {
			kept += c.least(at)
		}
	}
	for at := from; kept > 0 && at < uint32(len(c.flags)); at++ {
		if c.flags[at]&leads == 0 {
			continue
		}
		least, left := c.least(at), c.most-c.used
		kept -= least
		if c.opens(at) && !c.reveal(at, max(min(left, least), left-kept)) {
			p.Full = true
		}
	}
}

// least returns how many nodes are shown at least below a position that leads to objects of Show: those that lead on or are such
// objects, and one for those that do not fit.
func (c *Chart) least(at uint32) (n int) {
	for q := c.first[at]; q < c.first[at+1]; q++ {
		if c.flags[q]&(leads|isSought) != 0 {
			n++
		}
	}
	return n + 1
}

// opens reports whether what is below a position is to be shown, if it is there by default or asked for.
func (c *Chart) opens(at uint32) bool {
	f := c.flags[at]
	return f&isShown != 0 && (f&isShut == 0 || f&leads != 0) && c.first[at] < c.first[at+1]
}

// reveal shows what is below a position, while there is space. It returns false if not everything fits.
func (c *Chart) reveal(at uint32, space int) bool {
	from, to := c.first[at], c.first[at+1]
	n := int(to - from)
	if n <= space {
		for q := from; q < to; q++ {
			c.flags[q] |= isShown
		}
		c.flags[at] |= isOpen
		c.used += n
		return true
	}
	if space < 2 && at > 0 { // then it stays closed, which says as much as one node for those that do not fit
		return false
	}
	left := space - 1
	for _, by := range precedence {
		for q := from; q < to && left > 0; q++ {
			if f := c.flags[q]; f&isShown == 0 && (f&by != 0 || by == anything) {
				c.flags[q] |= isShown
				left--
			}
		}
	}
	c.flags[at] |= isOpen | isCut
	c.used += space
	return false
}

// mark sets the flags of what the page asks for.
func (c *Chart) mark(ask *Ask, p *Picture) {
	if len(ask.Open)+len(ask.Shut)+len(ask.Show) == 0 {
		return
	}
	c.locate()
	for _, k := range ask.Open {
		c.climb(c.find(k), isAsked)
	}
	for _, k := range ask.Shut {
		if at := c.find(k); at != 0 {
			c.flags[at] |= isShut
		}
	}
	for _, o := range ask.Show {
		at := uint32(0)
		if o < c.base {
			at = c.at[o]
		}
		if at == 0 {
			p.Outside = append(p.Outside, o)
			continue
		}
		c.flags[at] |= isSought
		c.climb(c.up[at], leads)
	}
}

// climb sets a flag of a position and of all above it.
func (c *Chart) climb(at uint32, f flag) {
	for ; at != 0 && c.flags[at]&f == 0; at = c.up[at] {
		c.flags[at] |= f
	}
}

// find returns the position of a key; 0 if the forest does not have it.
func (c *Chart) find(k Key) uint32 {
	switch {
	case k.Rest:
	case !k.Group:
		if k.Object < c.base {
			return c.at[k.Object]
		}
	default:
		i, found := slices.BinarySearchFunc(c.groups, group{k.Namespace, k.Resource}, func(a, b group) int {
			return cmp.Or(compareNamespaces(a.namespace, b.namespace), cmp.Compare(a.resource, b.resource))
		})
		if found {
			return c.at[int(c.base)+i]
		}
	}
	return 0
}
