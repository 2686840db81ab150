package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// drawing is a graph that is written as indented text: "pod pods in=shop also=x,y state=Blocked labelled". Below an object
// is what it owns; also are more owners, before= those that come first in the references. A line "fill 501 pods in=shop" is that
// many objects. Numbers follow the order of lines.
type drawing struct {
	graph  *Graph
	names  []string // by number
	owners [][]string
	chart  Chart
}

// filled begins the names of the objects of a line "fill".
const filled = "fill-"

var stateNames = [States]string{"Present", "Protected", "Terminating", "UnknownOwner", "Garbage", "Blocked"}

func draw(text string) *drawing {
	d := &drawing{graph: &Graph{Places: []uint32{0}, States: []State{0}, Kinds: []Kind{{}}}, names: []string{""}, owners: [][]string{nil}}
	var above []string // by depth
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		above = above[:depth]
		many := 1
		if words[0] == "fill" {
			_, _ = fmt.Sscan(words[1], &many)
			words = words[1:]
		}
		for i := range many {
			name := words[0]
			if many > 1 {
				name = fmt.Sprint(filled, i+1)
			}
			d.add(name, words[1:], above)
		}
		above = append(above, words[0])
	}
	d.link()
	return d
}

func (d *drawing) add(name string, words, above []string) {
	kind, state := Kind{Resource: "pods", Namespace: "shop"}, Present
	var owners []string
	if len(above) > 0 {
		owners = append(owners, above[len(above)-1])
	}
	matches := false
	for _, word := range words {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "in":
			kind.Namespace = value
		case "also":
			owners = append(owners, strings.Split(value, ",")...)
		case "before":
			owners = slices.Concat(strings.Split(value, ","), owners)
		case "state":
			state = State(slices.Index(stateNames[:], value))
		case "labelled":
			matches = true
		default:
			kind.Resource = word
		}
	}
	place := slices.Index(d.graph.Kinds, kind)
	if place < 0 {
		place = len(d.graph.Kinds)
		d.graph.Kinds = append(d.graph.Kinds, kind)
	}
	d.graph.Places, d.graph.States = append(d.graph.Places, uint32(place)), append(d.graph.States, state)
	if matches && d.graph.Labelled == nil {
		d.graph.Labelled = make([]bool, len(d.names))
	}
	if d.graph.Labelled != nil {
		d.graph.Labelled = append(d.graph.Labelled, matches)
	}
	d.names, d.owners = append(d.names, name), append(d.owners, owners)
}

// link writes the owners as numbers. An owner that is not drawn is not in the graph, as one that was removed during a copy.
func (d *drawing) link() {
	d.graph.First, d.graph.Owners = nil, nil
	for _, owners := range d.owners {
		d.graph.First = append(d.graph.First, uint32(len(d.graph.Owners)))
		for _, o := range owners {
			d.graph.Owners = append(d.graph.Owners, d.number(o))
		}
	}
	d.graph.First = append(d.graph.First, uint32(len(d.graph.Owners)))
}

func (d *drawing) number(name string) uint32 {
	if i := slices.Index(d.names, name); i > 0 {
		return uint32(i)
	}
	return uint32(len(d.names)) + 7
}

// key reads "web", "ns:shop" or "kind:pods:shop".
func (d *drawing) key(text string) Key {
	switch parts := strings.Split(text, ":"); parts[0] {
	case "ns":
		return Key{Group: true, Namespace: parts[1]}
	case "kind":
		return Key{Group: true, Resource: parts[1], Namespace: parts[2]}
	}
	return Key{Object: d.number(text)}
}

func (d *drawing) text(k Key) string {
	switch {
	case k == Key{Rest: true}:
		return "rest"
	case k.Rest:
		k.Rest = false
		return "rest of " + d.text(k)
	case !k.Group:
		return d.names[k.Object]
	case k.Resource == "":
		return "ns:" + k.Namespace
	}
	return "kind:" + k.Resource + ":" + k.Namespace
}

// ask reads the arguments of the command picture.
func (d *drawing) ask(t *testing.T, args []datadriven.CmdArg) *Ask {
	t.Helper()
	ask := &Ask{Fit: 1000, Most: 2000}
	for _, arg := range args {
		for _, value := range arg.Vals {
			switch arg.Key {
			case "fit":
				_, _ = fmt.Sscan(value, &ask.Fit)
			case "most":
				_, _ = fmt.Sscan(value, &ask.Most)
			case "in":
				value = strings.Trim(value, "-")
				ask.Scope.Namespace = &value
			case "root":
				ask.Scope.Root = d.number(value)
			case "open":
				ask.Open = append(ask.Open, d.key(value))
			case "shut":
				ask.Shut = append(ask.Shut, d.key(value))
			case "show":
				ask.Show = append(ask.Show, d.number(value))
			default:
				t.Fatalf("unknown argument %s", arg.Key)
			}
		}
	}
	return ask
}

// write writes a picture: first its counts, then each node below the one above it.
func (d *drawing) write(p *Picture) string {
	var b strings.Builder
	fmt.Fprintf(&b, "objects %d, levels %d of %d, %v wide and %v high", p.Objects, p.Depth, p.Levels, p.Width, p.Height)
	for s, n := range p.Totals {
		if n > 0 && s > 0 {
			fmt.Fprintf(&b, ", %d %s", n, stateNames[s])
		}
	}
	if p.Full {
		b.WriteString(", full")
	}
	if len(p.Outside) > 0 {
		fmt.Fprintf(&b, ", outside %d", p.Outside)
	}
	b.WriteString("\n")
	var below func(parent int32, indent string)
	below = func(parent int32, indent string) {
		left := Node{}
		for k, n := range p.Nodes {
			if n.Parent != parent {
				continue
			}
			if name := d.text(n.Key); strings.HasPrefix(name, filled) && name != filled+"1" {
				left = n
				continue
			}
			fmt.Fprintf(&b, "%s%s (%v %v)", indent, d.text(n.Key), n.X, n.Y)
			if n.State > 0 {
				b.WriteString(" " + stateNames[n.State])
			}
			if n.Children > 0 {
				fmt.Fprintf(&b, " %d/%d", n.Children, n.Below)
			}
			if n.Closed {
				b.WriteString(" closed")
			}
			if n.Hidden > 0 {
				b.WriteString(" hides " + stateNames[n.Hidden])
			}
			if !n.Line && n.Parent >= 0 {
				b.WriteString(" no line")
			}
			b.WriteString("\n")
			below(int32(k), indent+"  ")
		}
		if left.Key.Object > 0 {
			fmt.Fprintf(&b, "%sto %s (%v %v)\n", indent, d.text(left.Key), left.X, left.Y)
		}
	}
	below(-1, "")
	for _, o := range p.Others {
		fmt.Fprintf(&b, "%s also owns %s\n", d.text(p.Nodes[o[0]].Key), d.text(p.Nodes[o[1]].Key))
	}
	return b.String()
}

// The pictures of testdata/pictures.
func TestPictures(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/pictures", func(t *testing.T, path string) {
		t.Helper()
		var d *drawing
		datadriven.RunTest(t, path, func(t *testing.T, data *datadriven.TestData) string {
			t.Helper()
			switch data.Cmd {
			case "graph":
				d = draw(data.Input + "\n")
				return ""
			case "picture":
				return d.write(d.chart.Arrange(d.graph, d.ask(t, data.CmdArgs)))
			}
			t.Fatalf("unknown command %q", data.Cmd)
			return ""
		})
	})
}
