// Package consoletest is the browser's side of the graph, for tests.
package consoletest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/uid"
)

// T is a test.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Graph is what a page knows of a graph after the messages that it has received.
type Graph struct {
	view.GraphFrame

	Places []view.GraphPlace
	Nodes  map[uint32]*Node
	Others map[[2]uint32]bool
}

// Node is a node of a graph.
type Node struct {
	Number, Parent, Below, Look, Place uint32
	X, Y                               float32
	Name, Key                          string
}

// State is the number of its state.
func (n *Node) State() uint32 { return n.Look & 15 }

// Hidden is the number of the most severe state below it that is not shown.
func (n *Node) Hidden() uint32 { return n.Look >> 4 & 15 }

// Stands says what it stands for; see view.GraphFrame.
func (n *Node) Stands() uint32 { return n.Look >> 8 & 3 }

// Closed reports whether nodes below it are not shown.
func (n *Node) Closed() bool { return n.Look>>10&1 != 0 }

// ByKey returns the node with a key; nil if there is none.
func (g *Graph) ByKey(key string) *Node {
	for _, n := range g.Nodes {
		if n.Key == key {
			return n
		}
	}
	return nil
}

// Apply applies a message for the Ask with an id. It fails the test if the message breaks a rule of the format.
func (g *Graph) Apply(tb T, id int, message []byte) {
	tb.Helper()
	r := reader{tb: tb, rest: message}
	if got := r.number(); got != uint32(id) {
		tb.Fatalf("the message is for the Ask %d, want %d", got, id)
	}
	text := r.take(int(r.number()))
	g.GraphFrame = view.GraphFrame{}
	if err := json.Unmarshal(text, &g.GraphFrame); err != nil {
		tb.Fatalf("%v in %q", err, text)
	}
	r.align()
	if g.First {
		g.Places, g.Nodes, g.Others = nil, map[uint32]*Node{}, map[[2]uint32]bool{}
	}
	g.Places = append(g.Places, g.GraphFrame.Places...)
	for range g.Removed {
		n := r.number()
		if g.Nodes[n] == nil {
			tb.Fatalf("node %d is removed, and there is none", n)
		}
		delete(g.Nodes, n)
	}
	g.nodes(&r)
	g.others(&r)
	if len(r.rest) > 0 {
		tb.Fatalf("%d bytes are left", len(r.rest))
	}
	g.check(tb)
}

func (g *Graph) nodes(r *reader) {
	r.tb.Helper()
	list := make([]*Node, g.GraphFrame.Nodes)
	for i := range list {
		number := r.number()
		if known := g.Nodes[number]; (known != nil) == (i < g.Named) {
			r.tb.Fatalf("node %d, in place %d of %d with names, was known: %t", number, i, g.Named, known != nil)
		}
		list[i] = &Node{Number: number}
		if known := g.Nodes[number]; known != nil {
			list[i] = known
		}
	}
	column := func(set func(*Node, uint32)) {
		for _, n := range list {
			set(n, r.number())
		}
	}
	column(func(n *Node, v uint32) { n.Parent = v })
	column(func(n *Node, v uint32) { n.X = math.Float32frombits(v) })
	column(func(n *Node, v uint32) { n.Y = math.Float32frombits(v) })
	column(func(n *Node, v uint32) { n.Below = v })
	column(func(n *Node, v uint32) { n.Look = v })
	column(func(n *Node, v uint32) { n.Place = v })
	var lengths [2][]int
	for i := range lengths {
		for range g.Named {
			lengths[i] = append(lengths[i], int(r.number()))
		}
	}
	for i, n := range list[:g.Named] {
		n.Name = string(r.take(lengths[0][i]))
	}
	r.align()
	for i, n := range list[:g.Named] {
		n.Key = string(r.take(lengths[1][i]))
		if u := uid.UID(n.Key); u.UUID() {
			n.Key = u.String()
		}
	}
	r.align()
	for i, n := range list {
		if i < g.Named {
			g.Nodes[n.Number] = n
		}
		if n.Parent != 0 && g.Nodes[n.Parent] == nil {
			r.tb.Fatalf("node %d comes before the one above it, %d", n.Number, n.Parent)
		}
	}
}

func (g *Graph) others(r *reader) {
	r.tb.Helper()
	for range g.OthersRemoved {
		pair := [2]uint32{r.number(), r.number()}
		if !g.Others[pair] {
			r.tb.Fatalf("the pair %v is removed, and there is none", pair)
		}
		delete(g.Others, pair)
	}
	for range g.OthersAdded {
		pair := [2]uint32{r.number(), r.number()}
		if g.Others[pair] {
			r.tb.Fatalf("the pair %v is added, and was there", pair)
		}
		g.Others[pair] = true
	}
}

// check checks what is true of each complete graph.
func (g *Graph) check(tb T) {
	tb.Helper()
	if g.Shown != len(g.Nodes) {
		tb.Fatalf("%d nodes are shown, want %d", len(g.Nodes), g.Shown)
	}
	for _, n := range g.Nodes {
		if n.Parent != 0 && g.Nodes[n.Parent] == nil {
			tb.Fatalf("node %d is below %d, which is not shown", n.Number, n.Parent)
		}
		if int(n.Place) >= len(g.Places) {
			tb.Fatalf("node %d is in place %d of %d", n.Number, n.Place, len(g.Places))
		}
		if n.X < 0 || n.Y < 0 || n.X > g.Width || n.Y > g.Height {
			tb.Fatalf("node %d is at %g, %g, outside of %g by %g", n.Number, n.X, n.Y, g.Width, g.Height)
		}
	}
	for pair := range g.Others {
		if g.Nodes[pair[0]] == nil || g.Nodes[pair[1]] == nil {
			tb.Fatalf("the pair %v has a node that is not shown", pair)
		}
	}
}

// String names a node, for failures.
func (n *Node) String() string {
	return fmt.Sprintf("%d %s (%s) below %d at %g, %g, %d below it, look %#x", n.Number, n.Name, n.Key, n.Parent, n.X, n.Y, n.Below, n.Look)
}

// reader reads a message.
type reader struct {
	tb   T
	rest []byte
	read int
}

func (r *reader) take(n int) []byte {
	r.tb.Helper()
	if n > len(r.rest) {
		r.tb.Fatalf("the message ends after %d bytes, %d before its end", r.read+len(r.rest), n-len(r.rest))
	}
	b := r.rest[:n]
	r.rest, r.read = r.rest[n:], r.read+n
	return b
}

func (r *reader) number() uint32 {
	r.tb.Helper()
	return binary.LittleEndian.Uint32(r.take(4))
}

// align skips to the next multiple of 4 bytes.
func (r *reader) align() {
	r.tb.Helper()
	r.take((4 - r.read%4) % 4)
}
