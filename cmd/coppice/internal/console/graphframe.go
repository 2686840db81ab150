package console

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// sentGraph is what a tab has received of a graph: a message says what differs from it.
type sentGraph struct {
	id     int    // of the Ask
	number uint32 // the last number that a node has received
	header view.GraphFrame
	nodes  []sentNode
	// groups has, for the nodes that stand for several objects, where they are in nodes.
	groups map[chart.Key]int32
	// others are the pairs of an owner and a dependent, sorted.
	others []uint64
	places map[chart.Kind]uint32
	used   int // how many places the picture has
	// began: the tab has received a message, which the next one continues.
	began bool
}

// sentNode is a node as the browser knows it. It has 64 bytes.
type sentNode struct {
	object                             uint32 // the number in the mirror; 0 of groups
	number, parent, below, look, place uint32
	x, y                               float32
	named                              chart.Named
}

// What a node stands for, in its look.
const (
	lookGroupOfNamespace uint32 = 1 << 8
	lookGroupOfKind      uint32 = 2 << 8
	lookRest             uint32 = 3 << 8
	lookClosed           uint32 = 1 << 10
	lookLine             uint32 = 1 << 11
)

func lookOf(n *chart.Node) uint32 {
	look := uint32(n.State) | uint32(n.Hidden)<<4
	switch {
	case n.Key.Rest:
		look |= lookRest
	case n.Key.Group && n.Key.Resource == "":
		look |= lookGroupOfNamespace
	case n.Key.Group:
		look |= lookGroupOfKind
	}
	if n.Closed {
		look |= lookClosed
	}
	if n.Line {
		look |= lookLine
	}
	return look
}

// morePlaces is how many places a tab keeps in addition to twice as many as its picture has.
const morePlaces = 1_000

// next returns the message that makes a tab show a picture, nil if it shows it already. named has the names of the nodes.
// at has an element for each number of the mirror, all 0.
func (s *sentGraph) next(p *chart.Picture, kinds []chart.Kind, named []chart.Named, at []int32, header view.GraphFrame) []byte {
	if len(s.places) > morePlaces+2*s.used { // many have come and gone
		*s = sentGraph{id: s.id}
	}
	if s.places == nil {
		s.places, s.groups = map[chart.Kind]uint32{}, map[chart.Key]int32{}
	}
	header.First = !s.began
	d := difference{s: s, p: p, kinds: kinds, at: at, header: header, placeOf: make([]uint32, len(kinds))}
	d.compare(named)
	return d.message()
}

// difference is what a message says.
type difference struct {
	s       *sentGraph
	p       *chart.Picture
	kinds   []chart.Kind
	at      []int32
	header  view.GraphFrame
	used    int      // places
	placeOf []uint32 // for each kind the place, plus 1, once it is known

	nodes          []sentNode
	fresh, changed []int32 // in nodes
	removed        []uint32
	lost, added    []uint64
}

// compare finds what differs, and remembers the picture as sent.
func (d *difference) compare(named []chart.Named) {
	s := d.s
	for i := range s.nodes {
		if o := s.nodes[i].object; int(o) < len(d.at) {
			d.at[o] = int32(i) + 1
		}
	}
	kept := make([]bool, len(s.nodes))
	d.nodes = make([]sentNode, len(d.p.Nodes))
	groups := make(map[chart.Key]int32, len(s.groups))
	for i := range d.p.Nodes {
		n, to := &d.p.Nodes[i], &d.nodes[i]
		*to = sentNode{below: n.Below, look: lookOf(n), place: d.place(n), x: n.X, y: n.Y}
		if n.Parent >= 0 {
			to.parent = d.nodes[n.Parent].number
		}
		before := int32(-1)
		if n.Key.Rest || n.Key.Group {
			if was, known := s.groups[n.Key]; known {
				before = was
			}
			groups[n.Key] = int32(i)
		} else {
			to.object, to.named = n.Key.Object, named[i]
			before = d.at[n.Key.Object] - 1
		}
		if before < 0 || s.nodes[before].named != to.named {
			s.number++
			to.number = s.number
			d.fresh = append(d.fresh, int32(i))
			continue
		}
		kept[before] = true
		if to.number = s.nodes[before].number; *to != s.nodes[before] {
			d.changed = append(d.changed, int32(i))
		}
	}
	for i := range s.nodes {
		if o := s.nodes[i].object; int(o) < len(d.at) {
			d.at[o] = 0
		}
		if !kept[i] {
			d.removed = append(d.removed, s.nodes[i].number)
		}
	}
	others := make([]uint64, len(d.p.Others))
	for i, pair := range d.p.Others {
		others[i] = uint64(d.nodes[pair[0]].number)<<32 | uint64(d.nodes[pair[1]].number)
	}
	slices.Sort(others)
	d.lost, d.added = missing(s.others, others), missing(others, s.others)
	s.nodes, s.groups, s.others, s.used = d.nodes, groups, others, d.used
}

// missing returns what is in one sorted list and not in another.
func missing(of, in []uint64) (list []uint64) {
	i := 0
	for _, v := range of {
		for i < len(in) && in[i] < v {
			i++
		}
		if i == len(in) || in[i] != v {
			list = append(list, v)
		}
	}
	return list
}

// place returns the index of a node's place in the list of the browser.
func (d *difference) place(n *chart.Node) uint32 {
	if n.Place == 0 {
		d.used++
		return d.placeOfKind(chart.Kind{Resource: n.Key.Resource, Namespace: n.Key.Namespace})
	}
	known := &d.placeOf[n.Place]
	if *known == 0 {
		d.used++
		*known = d.placeOfKind(d.kinds[n.Place]) + 1
	}
	return *known - 1
}

func (d *difference) placeOfKind(k chart.Kind) uint32 {
	place, known := d.s.places[k]
	if !known {
		place = uint32(len(d.s.places))
		d.s.places[k] = place
		d.header.Places = append(d.header.Places, view.GraphPlace{Resource: k.Resource, Namespace: k.Namespace})
	}
	return place
}

// message encodes the difference; nil if there is none.
func (d *difference) message() []byte {
	h := &d.header
	h.Removed, h.Named, h.Nodes = len(d.removed), len(d.fresh), len(d.fresh)+len(d.changed)
	h.OthersRemoved, h.OthersAdded = len(d.lost), len(d.added)
	h.Shown, h.Objects, h.Totals = len(d.p.Nodes), d.p.Objects, slices.Clone(d.p.Totals[:])
	h.OthersLeft = d.p.OthersLeft
	h.Full, h.Depth, h.Levels, h.Width, h.Height = d.p.Full, d.p.Depth, d.p.Levels, d.p.Width, d.p.Height
	same := *h
	same.Revision = d.s.header.Revision // a change of the realm that this picture does not show
	if d.s.began && bytes.Equal(encode(same), encode(d.s.header)) {
		return nil
	}
	d.s.began, d.s.header = true, *h
	d.s.header.First, d.s.header.Places, d.s.header.Removed, d.s.header.Named, d.s.header.Nodes = false, nil, 0, 0, 0
	d.s.header.OthersRemoved, d.s.header.OthersAdded = 0, 0

	b := startFrame(d.s.id, *h, 4*len(d.removed)+48*h.Nodes+16*h.Named+8*(len(d.lost)+len(d.added)))
	for _, n := range d.removed {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	order := append(d.fresh, d.changed...) //nolint:gocritic // the first is not used again
	column := func(of func(*sentNode) uint32) {
		for _, i := range order {
			b = binary.LittleEndian.AppendUint32(b, of(&d.nodes[i]))
		}
	}
	column(func(n *sentNode) uint32 { return n.number })
	column(func(n *sentNode) uint32 { return n.parent })
	column(func(n *sentNode) uint32 { return math.Float32bits(n.x) })
	column(func(n *sentNode) uint32 { return math.Float32bits(n.y) })
	column(func(n *sentNode) uint32 { return n.below })
	column(func(n *sentNode) uint32 { return n.look })
	column(func(n *sentNode) uint32 { return n.place })
	b = d.texts(b, order[:h.Named])
	for _, pairs := range [][]uint64{d.lost, d.added} {
		for _, pair := range pairs {
			b = binary.LittleEndian.AppendUint32(b, uint32(pair>>32))
			b = binary.LittleEndian.AppendUint32(b, uint32(pair))
		}
	}
	return b
}

// startFrame begins a message, to which so many bytes will be appended.
func startFrame(id int, h view.GraphFrame, size int) []byte {
	text := encode(h)
	b := make([]byte, 0, 8+len(text)+4+size)
	b = binary.LittleEndian.AppendUint32(b, uint32(id))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	return pad(b, ' ')
}

func pad(b []byte, with byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, with)
	}
	return b
}

// texts appends the names and the keys of nodes.
func (d *difference) texts(b []byte, order []int32) []byte {
	for _, i := range order {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(d.nodes[i].named.Name)))
	}
	var keys []byte
	for _, i := range order {
		before := len(keys)
		keys = appendKey(keys, &d.p.Nodes[i], &d.nodes[i])
		b = binary.LittleEndian.AppendUint32(b, uint32(len(keys)-before))
	}
	for _, i := range order {
		b = append(b, d.nodes[i].named.Name...)
	}
	b = pad(b, 0)
	return pad(append(b, keys...), 0)
}
