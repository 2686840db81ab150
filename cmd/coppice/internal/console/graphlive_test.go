package console

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/consoletest"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// graphRealm is a realm whose mirror is fed by the test alone.
func graphRealm(m *mirror.Mirror) *realm {
	s := &Server{drawers: newDrawers(), graphs: make(chan struct{}, maxGraphs)}
	s.c.Now = time.Now
	r := newRealm(&user{all: &users{s: s}, graphs: make(chan struct{}, maxGraphsOfUser), ctx: context.Background()}, "default")
	r.graph = shared[*graph]{begin: func() *graph { return &graph{Mirror: m} }, run: func(ctx context.Context, _ *graph) { <-ctx.Done() }}
	r.listed = cached[listing]{read: func(context.Context) (listing, bool) { return listing{}, true }, age: time.Hour, time: time.Minute}
	return r
}

// pod is a change of a Pod with owners that are Pods. The uids are the names of all.
func pod(namespace, name string, revision uint64, owners ...string) mirror.Change {
	o := &coppicev1.Object{ApiVersion: "v1", Kind: "Pod", Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: namespace, Uid: name, ResourceVersion: revision}}
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "Pod", Name: owner, Uid: owner})
	}
	return mirror.Change{Op: mirror.Put, Resource: "pods", Object: o, Revision: revision}
}

func removal(c mirror.Change) mirror.Change {
	c.Op = mirror.Remove
	return c
}

// followed is a graph that a test follows.
type followed struct {
	t       *testing.T
	page    consoletest.Graph
	asks    chan view.Ask
	sent    chan []byte
	refused chan error
	ended   chan error
}

func followGraph(ctx context.Context, t *testing.T, r *realm, a *view.GraphAsk) *followed {
	t.Helper()
	f := &followed{t: t, asks: make(chan view.Ask, 1), sent: make(chan []byte), refused: make(chan error, 1), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(func() { cancel(); receive(t, "end of the graph", f.ended) })
	send := func(message []byte) {
		select {
		case f.sent <- message:
		case <-ctx.Done():
		}
	}
	go func() {
		f.ended <- r.followGraph(ctx, view.Ask{ID: 3, Graph: a}, f.asks, send, func(err error) { f.refused <- err })
	}()
	return f
}

// until applies messages until the page is as wanted.
func (f *followed) until(what string, is func(*consoletest.Graph) bool) {
	f.t.Helper()
	for {
		f.page.Apply(f.t, 3, receive(f.t, what, f.sent))
		if is(&f.page) {
			return
		}
	}
}

// Browsers that do not read keep no others from their pictures.
func TestGraphOfSlowBrowsers(t *testing.T) {
	t.Parallel()
	m := mirror.New(time.Now)
	m.Apply(pod("a", "p", 1), mirror.Change{Op: mirror.Synced})
	r := graphRealm(m)
	for range drawnAtOnce {
		slow := followGraph(t.Context(), t, r, nil)
		slow.page.Apply(t, 3, receive(t, "first picture", slow.sent))
	}
	m.Apply(pod("a", "q", 2)) // the slow browsers do not take this
	other := followGraph(t.Context(), t, r, nil)
	other.until("the picture of another browser", func(g *consoletest.Graph) bool { return g.Objects == 2 })
}

// After a refused Ask, the page follows what it had.
func TestGraphAfterRefusedAsk(t *testing.T) {
	t.Parallel()
	m := mirror.New(time.Now)
	m.Apply(pod("a", "p", 1), mirror.Change{Op: mirror.Synced})
	f := followGraph(t.Context(), t, graphRealm(m), nil)
	f.until("the object", func(g *consoletest.Graph) bool { return g.Objects == 1 })
	f.asks <- view.Ask{ID: 3, Graph: &view.GraphAsk{Labels: "bad"}}
	if err := receive(t, "refusal", f.refused); !strings.Contains(err.Error(), `"bad" is not a label`) {
		t.Errorf("the Ask is refused with %v", err)
	}
	m.Apply(pod("a", "q", 2))
	f.until("the next object", func(g *consoletest.Graph) bool { return g.Objects == 2 })
}

// When the root of a graph is removed, what names it as its owner is still shown.
func TestGraphOfRemovedRoot(t *testing.T) {
	t.Parallel()
	m := mirror.New(time.Now)
	m.Apply(pod("a", "p", 1), pod("a", "c", 2, "p"), pod("a", "d", 3, "c"), pod("a", "other", 4), mirror.Change{Op: mirror.Synced})
	f := followGraph(t.Context(), t, graphRealm(m), &view.GraphAsk{Root: "p"})
	f.until("three objects", func(g *consoletest.Graph) bool { return g.Objects == 3 && len(g.Outside) == 0 })
	m.Apply(removal(pod("a", "p", 5)))
	f.until("what is left", func(g *consoletest.Graph) bool { return g.Objects == 2 })
	if d := f.page.ByKey("d"); !slices.Equal(f.page.Outside, []string{"p"}) || d == nil || f.page.Nodes[d.Parent].Key != "c" {
		t.Errorf("the page shows %v, with %v outside", f.page.Nodes, f.page.Outside)
	}
	m.Apply(removal(pod("a", "c", 6)), removal(pod("a", "d", 7)))
	f.until("nothing", func(g *consoletest.Graph) bool { return g.Objects == 0 && len(g.Nodes) == 0 })
}

// What a page needs many places for is sent once; places that have come and gone are forgotten.
func TestGraphPlaces(t *testing.T) {
	t.Parallel()
	m := mirror.New(time.Now)
	const namespaces = 4 * morePlaces
	for i := range namespaces {
		m.Apply(pod(fmt.Sprintf("namespace-%d", i), fmt.Sprintf("p%d", i), 1))
	}
	m.Apply(mirror.Change{Op: mirror.Synced})
	g := &liveGraph{r: graphRealm(m), m: &graph{Mirror: m}, ask: &view.GraphAsk{}, sent: sentGraph{id: 3}}
	var page consoletest.Graph
	firsts := 0
	g.send = func(message []byte) {
		page.Apply(t, 3, message)
		if page.First {
			firsts++
		}
	}
	draw := func() {
		if _, err := g.draw(t.Context()); err != nil {
			t.Error(err)
		}
	}
	draw()
	m.Apply(pod("namespace-1", "new", 2))
	draw()
	if firsts != 1 || page.Objects != namespaces+1 {
		t.Errorf("a page with %d places began %d times, and has %d objects", len(page.Places), firsts, page.Objects)
	}
	for i := range 4 * namespaces { // one namespace at a time
		m.Apply(removal(pod("", fmt.Sprintf("p%d", i), 3)), pod(fmt.Sprintf("namespace-%d", namespaces+i), fmt.Sprintf("p%d", namespaces+i), 3))
		if i%(namespaces/2) == 0 {
			draw()
		}
	}
	draw()
	if most := morePlaces + 5*namespaces; len(page.Places) > most || firsts < 2 {
		t.Errorf("after many namespaces have come and gone, the page has %d places, at most %d are wanted; it began %d times", len(page.Places), most, firsts)
	}
}

// The lines to other owners are limited, and the page knows how many are left out.
func TestGraphOthersAreLimited(t *testing.T) {
	t.Parallel()
	m := mirror.New(time.Now)
	var owners []string
	for i := range 500 {
		owners = append(owners, fmt.Sprintf("o%d", i))
		m.Apply(pod("a", owners[i], 1))
	}
	const dependents = 2 * graphOthers / 500
	for i := range dependents {
		m.Apply(pod("a", fmt.Sprintf("d%d", i), 1, owners...))
	}
	m.Apply(mirror.Change{Op: mirror.Synced})
	f := followGraph(t.Context(), t, graphRealm(m), nil)
	f.until("the graph", func(g *consoletest.Graph) bool { return !g.Loading })
	if all := dependents * 499; len(f.page.Others) != graphOthers || f.page.OthersLeft != all-graphOthers {
		t.Errorf("%d of %d pairs are shown, %d are left out", len(f.page.Others), all, f.page.OthersLeft)
	}
}

// A page that has followed changes shows what a page shows that is opened now.
func TestGraphFollowsLikeOpening(t *testing.T) {
	t.Parallel()
	names := []string{"u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9"}
	keys := append([]string{"ns:a", "ns:b", "ns:", "kind:pods:a", "nothing"}, names...)
	rapid.Check(t, func(t *rapid.T) {
		m := mirror.New(time.Now)
		m.Apply(mirror.Change{Op: mirror.Synced})
		r := graphRealm(m)
		page := &consoletest.Graph{}
		live := &liveGraph{r: r, m: &graph{Mirror: m}, sent: sentGraph{id: 7}, send: func(b []byte) { page.Apply(t, 7, b) }}
		show := func(g *liveGraph) {
			if _, err := g.draw(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		some := func(label string, most int) []string {
			return rapid.SliceOfN(rapid.SampledFrom(keys), 0, most).Draw(t, label)
		}
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				applyDrawn(t, m, uint64(step+2), names)
			}
			if step == 0 || rapid.IntRange(0, 3).Draw(t, "ask again") == 0 {
				a := &view.GraphAsk{Open: some("open", 3), Shut: some("shut", 3), Show: some("show", 2)}
				switch rapid.IntRange(0, 5).Draw(t, "part") {
				case 0:
					a.Root = rapid.SampledFrom(names).Draw(t, "root")
				case 1:
					a.Namespace = rapid.SampledFrom([]string{"a", "b", "-"}).Draw(t, "namespace")
				case 2:
					a.Labels = "l=1"
				}
				if err := live.change(a); err != nil {
					t.Fatal(err)
				}
			}
			show(live)
			fresh := &consoletest.Graph{}
			show(&liveGraph{r: r, m: live.m, ask: live.ask, labels: live.labels, sent: sentGraph{id: 9}, send: func(b []byte) { fresh.Apply(t, 9, b) }})
			if has, want := written(page), written(fresh); has != want {
				t.Fatalf("asking for %+v, the page shows\n%s\na page that is opened now\n%s", *live.ask, has, want)
			}
			if a := live.ask; a.Root+a.Namespace+a.Labels == "" && uint64(page.Objects) != m.Objects() {
				t.Fatalf("the page has %d objects, the mirror %d", page.Objects, m.Objects())
			}
		}
	})
}

// applyDrawn applies any change: kinds of two groups have the same plural, and a uid gets other names and namespaces.
func applyDrawn(t *rapid.T, m *mirror.Mirror, revision uint64, names []string) {
	name := rapid.SampledFrom(names).Draw(t, "object")
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0, 1:
		m.Apply(removal(pod("", name, revision)))
		return
	case 2:
		m.Apply(mirror.Change{Op: mirror.Restart}, mirror.Change{Op: mirror.Synced})
		return
	}
	c := pod(rapid.SampledFrom([]string{"a", "b", "", "a"}).Draw(t, "namespace"), name, revision, rapid.SliceOfN(rapid.SampledFrom(names), 0, 3).Draw(t, "owners")...)
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		c.Resource, c.Object.ApiVersion = "pods.example.com", "example.com/v1"
	case 1:
		c.Resource, c.Object.Kind = "others", "Other"
	case 2:
		c.Object.Metadata.Name += "-renamed"
	}
	if rapid.Bool().Draw(t, "labelled") {
		c.Object.Metadata.Labels = map[string]string{"l": "1"}
	}
	if rapid.Bool().Draw(t, "protected") {
		c.Object.Metadata.Protection = &coppicev1.Protection{}
	}
	m.Apply(c)
}

// written is what a page shows, as text that does not depend on the numbers of nodes.
func written(g *consoletest.Graph) string {
	key := func(number uint32) string {
		if n := g.Nodes[number]; n != nil {
			return n.Key
		}
		return "-"
	}
	lines := []string{}
	for n := range maps.Values(g.Nodes) {
		lines = append(lines, fmt.Sprintf("%s %q below %s at %g,%g: %d, %#x in %v", n.Key, n.Name, key(n.Parent), n.X, n.Y, n.Below, n.Look, g.Places[n.Place]))
	}
	for pair := range g.Others {
		lines = append(lines, key(pair[0])+" owns "+key(pair[1]))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d %v %d %t %d %d %v %g %g\n%s\n", g.Objects, g.Totals, g.Shown, g.Full, g.Depth, g.Levels, g.Outside, g.Width, g.Height, strings.Join(lines, "\n"))
}
