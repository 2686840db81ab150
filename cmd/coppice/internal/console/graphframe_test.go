package console

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/consoletest"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/uid"
)

// TestGraphMessages checks that a page which applies all messages shows each picture as it is.
func TestGraphMessages(t *testing.T) {
	kinds := []chart.Kind{{}, {Resource: "pods", Namespace: "shop"}, {Resource: "pods", Namespace: "billing"}, {Resource: "nodes"}}
	rapid.Check(t, func(t *rapid.T) {
		s := sentGraph{id: 7}
		page := &consoletest.Graph{}
		at := make([]int32, 20)
		for range rapid.IntRange(1, 6).Draw(t, "pictures") {
			p, named := drawPicture(t, len(kinds))
			h := view.GraphFrame{Revision: rapid.Uint64Range(1, 3).Draw(t, "revision"), Most: graphMost}
			if message := s.next(p, kinds, named, at, h); message != nil {
				page.Apply(t, 7, message)
			}
			same(t, page, p, kinds, named)
			if again := s.next(p, kinds, named, at, h); again != nil {
				t.Fatalf("the same picture again is a message of %d bytes", len(again))
			}
			for number, v := range at {
				if v != 0 {
					t.Fatalf("at[%d] is %d after a message, want 0", number, v)
				}
			}
		}
	})
}

// drawPicture draws any picture, whose groups, rests and objects can be below each other.
func drawPicture(t *rapid.T, kinds int) (p *chart.Picture, named []chart.Named) {
	p = &chart.Picture{Width: 10, Height: 20, Objects: rapid.IntRange(0, 3).Draw(t, "objects"), Full: rapid.Bool().Draw(t, "full")}
	used := map[chart.Key]bool{}
	for range rapid.IntRange(0, 12).Draw(t, "nodes") {
		n := chart.Node{
			Parent: int32(rapid.IntRange(-1, len(p.Nodes)-1).Draw(t, "parent")),
			X:      float32(rapid.IntRange(0, 10).Draw(t, "x")), Y: float32(rapid.IntRange(0, 20).Draw(t, "y")),
			Below: rapid.Uint32Range(0, 2).Draw(t, "below"), State: chart.State(rapid.IntRange(0, int(chart.States)-1).Draw(t, "state")),
			Hidden: chart.State(rapid.IntRange(0, int(chart.States)-1).Draw(t, "hidden")),
			Closed: rapid.Bool().Draw(t, "closed"), Line: rapid.Bool().Draw(t, "line"),
		}
		name := chart.Named{}
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			n.Key = chart.Key{Group: true, Namespace: rapid.SampledFrom([]string{"", "shop"}).Draw(t, "namespace"), Resource: rapid.SampledFrom([]string{"", "pods"}).Draw(t, "resource")}
		case 1:
			n.Key = chart.Key{Object: rapid.Uint32Range(0, 5).Draw(t, "of"), Rest: true}
		default:
			n.Key, n.Place = chart.Key{Object: rapid.Uint32Range(1, 15).Draw(t, "object")}, uint32(rapid.IntRange(1, kinds-1).Draw(t, "place"))
			name.Name = rapid.SampledFrom([]string{"", "a", "näme", "longer"}).Draw(t, "name")
			name.UID = uid.MustParse(fmt.Sprintf(rapid.SampledFrom([]string{"0198c0de-0000-7000-8000-0000000000%02x", "0198c0de-0000-7000-8000-0000000001%02x", "uid-of-16-byte%02x"}).Draw(t, "uid"), n.Key.Object))
		}
		if used[n.Key] {
			continue
		}
		used[n.Key] = true
		p.Nodes, named = append(p.Nodes, n), append(named, name)
	}
	pairs := map[[2]int32]bool{}
	for range rapid.IntRange(0, len(p.Nodes)).Draw(t, "others") {
		pair := [2]int32{int32(rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "owner")), int32(rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "dependent"))}
		if !pairs[pair] {
			pairs[pair] = true
			p.Others = append(p.Others, pair)
		}
	}
	return p, named
}

// same checks that a page shows a picture.
func same(t *rapid.T, page *consoletest.Graph, p *chart.Picture, kinds []chart.Kind, named []chart.Named) {
	t.Helper()
	if len(page.Nodes) != len(p.Nodes) || len(page.Others) != len(p.Others) || page.Objects != p.Objects || page.Full != p.Full {
		t.Fatalf("the page shows %d nodes, %d other owners, of %d objects, full %t; want %d, %d, %d, %t",
			len(page.Nodes), len(page.Others), page.Objects, page.Full, len(p.Nodes), len(p.Others), p.Objects, p.Full)
	}
	of := map[string]*consoletest.Node{} // by what tells nodes apart, with the place in the tree
	for _, n := range page.Nodes {
		above := ""
		if up := page.Nodes[n.Parent]; up != nil {
			above = fmt.Sprint(up.Key, up.Name, up.Look, up.X, up.Y)
		}
		of[fmt.Sprint(n.Key, n.Name, n.Look, n.X, n.Y, n.Below, page.Places[n.Place], above)] = n
	}
	numbers := make([]uint32, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		text := func(i int32) (key, name string, look uint32) {
			n := &p.Nodes[i]
			sent := &sentNode{}
			if !n.Key.Group && !n.Key.Rest {
				sent.named = named[i]
			}
			key = string(appendKey(nil, n, sent))
			if u := uid.UID(key); u.UUID() {
				key = u.String()
			}
			return key, sent.named.Name, lookOf(n)
		}
		above := ""
		if n.Parent >= 0 {
			key, name, look := text(n.Parent)
			above = fmt.Sprint(key, name, look, p.Nodes[n.Parent].X, p.Nodes[n.Parent].Y)
		}
		k := kinds[n.Place]
		if n.Place == 0 {
			k = chart.Kind{Resource: n.Key.Resource, Namespace: n.Key.Namespace}
		}
		key, name, look := text(int32(i))
		want := fmt.Sprint(key, name, look, n.X, n.Y, n.Below, view.GraphPlace{Resource: k.Resource, Namespace: k.Namespace}, above)
		if of[want] == nil {
			t.Fatalf("the page has no node %s, but %v", want, of)
		}
		numbers[i] = of[want].Number
	}
	for _, pair := range p.Others {
		if !page.Others[[2]uint32{numbers[pair[0]], numbers[pair[1]]}] {
			t.Fatalf("the page lacks the other owner %v of %v", pair, page.Others)
		}
	}
}
