package chart

import (
	"math"
	"slices"
)

// Chart arranges pictures, one after the other, in memory that it keeps. The zero value is ready for use. A Chart must not be
// used by several goroutines at once.
type Chart struct {
	forest
	shown
	layout
	lifted  lifted
	picture Picture
}

// Arrange returns the picture of a graph. The picture and what it refers to are valid until the next call of Arrange; the Chart
// keeps nothing of the graph but the names of kinds and namespaces.
func (c *Chart) Arrange(g *Graph, ask *Ask) *Picture {
	p := &c.picture
	*p = Picture{Nodes: p.Nodes[:0], Others: p.Others[:0], Outside: p.Outside[:0]}
	c.plant(g, &ask.Scope)
	p.Objects, p.Totals, p.Levels = c.objects, c.totals, len(c.levels)
	c.choose(ask, p)
	c.emit(g, p)
	if c.seconds {
		most := ask.MostOthers
		if most == 0 {
			most = math.MaxInt / examined
		}
		c.lift(g, p, most)
	}
	c.place(p)
	return p
}

// sized returns a slice of a length, in the memory of s if it is large enough. Its values are any.
func sized[T any](s []T, n int) []T {
	return slices.Grow(s[:0], n)[:n]
}

// zeroed returns a slice of zero values of a length, in the memory of s if it is large enough.
func zeroed[T any](s []T, n int) []T {
	s = sized(s, n)
	clear(s)
	return s
}
