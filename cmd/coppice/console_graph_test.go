package main

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/consoletest"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// graphTab is a tab that follows one graph.
type graphTab struct {
	b     *browser
	conn  *websocket.Conn
	graph consoletest.Graph
	ask   view.Ask
}

func (b *browser) graph(ask view.GraphAsk) *graphTab {
	b.t.Helper()
	t := &graphTab{b: b, conn: b.live(), ask: view.Ask{ID: 3, Realm: "default", View: view.ViewGraph, Graph: &ask}}
	t.conn.SetReadLimit(64 << 20)
	b.follow(t.conn, t.ask)
	return t
}

// change asks for something else.
func (t *graphTab) change(ask view.GraphAsk) {
	t.b.t.Helper()
	t.ask.Graph = &ask
	t.b.follow(t.conn, t.ask)
}

// until applies messages until the graph is as wanted. Errors fail the test.
func (t *graphTab) until(what string, is func(*consoletest.Graph) bool) {
	t.b.t.Helper()
	for {
		if f := t.next(what); f != nil {
			t.b.t.Fatalf("waiting for %s: %+v", what, *f)
		}
		if is(&t.graph) {
			return
		}
	}
}

// next applies the next message. It returns the failure, if the message is one.
func (t *graphTab) next(what string) *view.Failure {
	t.b.t.Helper()
	waiting, cancel := context.WithTimeout(t.b.ctx, testkit.Timeout)
	defer cancel()
	kind, data, err := t.conn.Read(waiting)
	if err != nil {
		t.b.t.Fatalf("waiting for %s: %v; the graph has %v", what, err, t.graph.Nodes)
	}
	if kind == websocket.MessageBinary {
		t.graph.Apply(t.b.t, t.ask.ID, data)
		return nil
	}
	var n view.News
	must.Succeed(t.b.t, json.Unmarshal(data, &n))
	if n.Error == nil {
		t.b.t.Fatalf("waiting for %s: the message is %s", what, data)
	}
	return n.Error
}

func (t *graphTab) refused(what, says string) {
	t.b.t.Helper()
	for {
		if f := t.next(what); f != nil {
			if !strings.Contains(f.Message, says) {
				t.b.t.Errorf("%s is refused with %q, want %q", what, f.Message, says)
			}
			return
		}
	}
}

// above returns the names from a node upwards.
func above(g *consoletest.Graph, key string) string {
	n := g.ByKey(key)
	if n == nil {
		return "not shown"
	}
	names := []string{}
	for ; n != nil; n = g.Nodes[n.Parent] {
		name := n.Name
		if n.Stands() != 0 {
			name = n.Key
		}
		names = append(names, name)
	}
	return strings.Join(names, " < ")
}

// A page follows the graph of a realm: what owns what, the states, and what changes; and the parts of it that it selects.
func TestConsoleGraph(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	b := newBrowser(ctx, t, p.console)
	b.signIn(view.SignIn{Token: p.token})
	tab := b.graph(view.GraphAsk{Namespace: "shop"})
	tab.until("an empty graph", func(g *consoletest.Graph) bool { return !g.Loading })

	object := func(name string, labels map[string]string, finalizers []string, owners ...*coppicev1.Object) *coppicev1.Object {
		t.Helper()
		m := &coppicev1.ObjectMeta{Name: name, Labels: labels, Finalizers: finalizers}
		for _, o := range owners {
			m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "ConfigMap", Name: o.GetMetadata().GetName(), Uid: o.GetMetadata().GetUid()})
		}
		o, err := p.configMaps().Create(ctx, &coppicev1.Object{Metadata: m})
		must.Succeed(t, err)
		return o
	}
	key := func(o *coppicev1.Object) string { return o.GetMetadata().GetUid() }
	web := object("web", map[string]string{"app": "web"}, nil)
	other := object("other", nil, nil)
	page := object("page", nil, []string{"example.com/never"}, web, other)
	leaf := object("leaf", nil, nil, page)
	tab.until("four objects", func(g *consoletest.Graph) bool { return len(g.Nodes) == 4 && len(g.Others) == 1 })
	g := &tab.graph
	if got := above(g, key(leaf)); got != "leaf < page < web" {
		t.Errorf("the leaf is below %s", got)
	}
	if !g.Others[[2]uint32{g.ByKey(key(other)).Number, g.ByKey(key(page)).Number}] {
		t.Errorf("the second owners are %v", g.Others)
	}
	if n := g.ByKey(key(web)); n.Below != 2 || n.State() != uint32(chart.Present) || g.Places[n.Place] != (view.GraphPlace{Resource: "configmaps", Namespace: "shop"}) || n.Closed() {
		t.Errorf("the owner is %v in %v", n, g.Places)
	}

	// What is shown changes without new nodes for those that stay.
	number := g.ByKey(key(web)).Number
	tab.change(view.GraphAsk{Namespace: "shop", Shut: []string{key(web)}})
	tab.until("the closed owner", func(g *consoletest.Graph) bool { return len(g.Nodes) == 2 })
	if n := g.ByKey(key(web)); g.First || n.Number != number || !n.Closed() || len(g.Others) != 1 {
		t.Errorf("closed, the owner is %v, with the second owners %v", n, g.Others)
	}
	tab.change(view.GraphAsk{Namespace: "shop", Shut: []string{key(web)}, Show: []string{key(leaf), "00000000-0000-4000-8000-000000000000"}})
	tab.until("the object that is looked for", func(g *consoletest.Graph) bool { return g.ByKey(key(leaf)) != nil })
	if len(g.Outside) != 1 {
		t.Errorf("objects that are not in the graph: %v", g.Outside)
	}

	// A deletion that is blocked is seen where it is, and above it when its owner is closed.
	tab.change(view.GraphAsk{Namespace: "shop"})
	_, err := p.configMaps().Delete(ctx, "page")
	must.Succeed(t, err)
	tab.until("the blocked object", func(g *consoletest.Graph) bool {
		n := g.ByKey(key(page))
		return n != nil && n.State() == uint32(chart.Blocked) && g.Totals[chart.Blocked] == 1
	})
	tab.change(view.GraphAsk{Namespace: "shop", Shut: []string{key(web)}})
	tab.until("what the closed owner hides", func(g *consoletest.Graph) bool { return g.ByKey(key(page)) == nil })
	if n := g.ByKey(key(web)); n.Hidden() != uint32(chart.Blocked) {
		t.Errorf("the closed owner is %v", n)
	}

	var next view.GraphNext
	if b.get("/api/realms/default/next?state=Blocked&namespace=shop", &next); next.UID != key(page) {
		t.Errorf("the next blocked object is %q", next.UID)
	}
	next = view.GraphNext{}
	if b.get("/api/realms/default/next?state=Blocked&labels=app=none&after="+key(page), &next); next.UID != "" {
		t.Errorf("the next blocked object of none is %q", next.UID)
	}
	b.refused(http.MethodGet, "/api/realms/default/next?state=Gone", nil, http.StatusBadRequest, "BadRequest")
	b.refused(http.MethodGet, "/api/realms/default/next?state=Blocked&labels=app", nil, http.StatusBadRequest, "BadRequest")
	var family view.Family
	if b.get("/api/realms/default/family?uid="+key(page), &family); family.Self.Waits != "finalizer example.com/never" || family.Owners[0].Waits != "" {
		t.Errorf("the family of the blocked object is %+v", family)
	}

	// Parts of the realm.
	for _, c := range []struct {
		ask  view.GraphAsk
		want []*coppicev1.Object
	}{
		{view.GraphAsk{Labels: "app=web"}, []*coppicev1.Object{web, page, leaf}},
		{view.GraphAsk{Labels: "app=none"}, nil},
		{view.GraphAsk{Root: key(page)}, []*coppicev1.Object{page, leaf}},
		{view.GraphAsk{Root: key(other)}, []*coppicev1.Object{other, page, leaf}},
		{view.GraphAsk{Namespace: "shop"}, []*coppicev1.Object{web, other, page, leaf}},
		{view.GraphAsk{Namespace: "other"}, nil},
	} {
		part := b.graph(c.ask)
		part.until("a part", func(g *consoletest.Graph) bool { return !g.Loading })
		has := []string{}
		for _, o := range c.want {
			if part.graph.ByKey(key(o)) != nil {
				has = append(has, o.GetMetadata().GetName())
			}
		}
		if len(has) != len(c.want) || len(part.graph.Nodes) != len(c.want) || part.graph.Objects != len(c.want) {
			t.Errorf("%+v has %d nodes, %v among them, want %d", c.ask, len(part.graph.Nodes), has, len(c.want))
		}
		must.Succeed(t, part.conn.Close(websocket.StatusNormalClosure, ""))
	}

	// The whole realm has other namespaces, too, and the registrations of kinds, which are in none.
	all := b.graph(view.GraphAsk{})
	all.until("the realm", func(g *consoletest.Graph) bool { return g.ByKey(key(leaf)) != nil })
	if got := above(&all.graph, key(leaf)); got != "leaf < page < web < ns:shop" || all.graph.ByKey("ns:") == nil {
		t.Errorf("in the whole realm the leaf is below %s", got)
	}

	// What is wrong with an Ask is said, and the next one counts again.
	tab.change(view.GraphAsk{Labels: "app"})
	tab.refused("a label without a value", `"app" is not a label`)
	tab.change(view.GraphAsk{Open: strings.Split(strings.Repeat("x ", 300), " ")})
	tab.refused("too many open nodes", "at most 200")
	tab.change(view.GraphAsk{Show: strings.Split(strings.Repeat("x ", 30), " ")})
	tab.refused("too many objects", "at most 20")
	tab.change(view.GraphAsk{Root: "00000000-0000-4000-8000-000000000000"})
	tab.until("that there is no such root", func(g *consoletest.Graph) bool { return len(g.Outside) == 1 && len(g.Nodes) == 0 })
	tab.change(view.GraphAsk{Namespace: "shop"})
	tab.until("all objects", func(g *consoletest.Graph) bool { return len(g.Nodes) == 4 })
	_, err = p.configMaps().Patch(ctx, "page", []byte(`{"metadata":{"finalizers":null}}`))
	must.Succeed(t, err)
	tab.until("the end of the deletion", func(g *consoletest.Graph) bool { return len(g.Nodes) == 2 && g.Objects == 2 })

	// A user can have so many graphs open, and another one when one is closed.
	var open []*graphTab
	for refused := false; !refused; {
		more := b.graph(view.GraphAsk{Namespace: "shop"})
		if f := more.next("the graph, or that there are too many"); f != nil {
			refused = true
			if f.Reason != "TooManyRequests" || len(open) > 16 {
				t.Errorf("after %d graphs another one is refused with %+v", len(open), *f)
			}
		}
		open = append(open, more)
	}
	for _, o := range open {
		must.Succeed(t, o.conn.Close(websocket.StatusNormalClosure, ""))
	}
	testkit.WaitFor(t, ctx, "a place for another graph", func() bool { return b.graph(view.GraphAsk{}).next("the graph") == nil })
}
