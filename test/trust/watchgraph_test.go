package trust_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// graphOf is the graph that a user sees.
type graphOf struct {
	mu      sync.Mutex
	objects map[string]string   // names by uid
	ever    map[string]struct{} // names of all that was delivered
	unseen  map[string]string
	synced  bool
	err     error
}

// graph watches the graph as a user until the test ends.
func (r *realm) graph(user string, opts ...client.Option) *graphOf {
	r.TB.Helper()
	g := &graphOf{objects: map[string]string{}, ever: map[string]struct{}{}}
	c := client.New(r.conn(user), append(opts, client.WithActor(user))...)
	ctx, stop := context.WithCancel(r.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range c.WatchGraph(ctx) {
			g.apply(e, err)
		}
	}()
	r.TB.Cleanup(func() {
		stop()
		<-done
	})
	return g
}

func (g *graphOf) apply(e client.GraphEvent, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := e.Object.GetMetadata()
	switch {
	case err != nil:
		g.err = err
	case e.Restarted:
		g.unseen = maps.Clone(g.objects)
	case e.Synced:
		for u := range g.unseen {
			delete(g.objects, u)
		}
		g.synced, g.unseen = true, nil
	case e.Object == nil:
	case e.Type == client.Deleted:
		delete(g.objects, m.GetUid())
	default:
		delete(g.unseen, m.GetUid())
		g.objects[m.GetUid()] = fmt.Sprintf("%s %s/%s", e.Resource, m.GetNamespace(), m.GetName())
	}
	if e.Object != nil {
		g.ever[g.objects[m.GetUid()]] = struct{}{}
	}
}

// has reports whether the graph is complete, and has exactly these objects apart from those of the group coppice.dev.
func (g *graphOf) has(names ...string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	var own []string
	for _, name := range g.objects {
		if resource, _, _ := strings.Cut(name, " "); !strings.HasSuffix(resource, ".coppice.dev") {
			own = append(own, name)
		}
	}
	slices.Sort(own)
	slices.Sort(names)
	return g.synced && g.unseen == nil && slices.Equal(own, names)
}

// got returns what the user gets of all objects of the realm.
func (r *realm) got(user string) (names []string) {
	r.TB.Helper()
	c := client.New(r.conn(user), client.WithActor(user))
	kinds, err := r.Kinds(r.Ctx)
	must.Succeed(r.TB, err)
	for _, k := range kinds.All() {
		if k.Group == "coppice.dev" {
			continue
		}
		of := client.ResourceOf(k)
		for o, err := range r.Resource(of, "").List(r.Ctx) {
			must.Succeed(r.TB, err)
			m := o.GetMetadata()
			if _, err := c.Resource(of, m.GetNamespace()).Get(r.Ctx, m.GetName()); err == nil {
				names = append(names, fmt.Sprintf("%s %s/%s", of, m.GetNamespace(), m.GetName()))
			} else if !errors.Is(err, client.ErrForbidden) {
				r.TB.Fatal(err)
			}
		}
	}
	return names
}

// secrets returns all secrets of a namespace.
func (r *realm) secrets(ns string) (names []string) {
	r.TB.Helper()
	for o, err := range r.Resource(client.ParseResource("secrets"), ns).List(r.Ctx) {
		must.Succeed(r.TB, err)
		names = append(names, fmt.Sprintf("secrets %s/%s", ns, o.GetMetadata().GetName()))
	}
	return names
}

// A watch of the graph has the objects that its user may get, before and after it began, and no others; without get there is none.
func TestGraphOfUsers(t *testing.T) {
	t.Parallel()
	r := startUsers(t, `
version: 1
users:
  shop: {may: [{verbs: [read], kinds: [configmaps], namespaces: [shop]}]}
  names: {may: [{verbs: [get], kinds: [secrets], namespaces: [prod, prod-1]}, {verbs: [get], kinds: [nodes], namespaces: [_]}]}
  all: {roles: [viewer]}
  writes: {may: [{verbs: [create, list, watch], kinds: [configmaps]}]}
`)
	write := func(name string) {
		t.Helper()
		for _, kind := range []string{"configmaps", "secrets"} {
			for _, ns := range []string{"shop", "prod", "prod-1"} {
				r.noted(kind, ns, name, "")
			}
		}
		r.noted("nodes", "", name, "")
	}
	write("before")
	var lacks sync.Map
	graphs := map[string]*graphOf{}
	for _, user := range []string{"shop", "names", "all"} {
		graphs[user] = r.graph(user, client.WithOnLeftOut(func(verb string, _ uint64) { lacks.Store(user+" "+verb, true) }))
		want := r.got(user)
		r.WaitFor("the graph of "+user, func() bool { return graphs[user].has(want...) })
	}
	write("after")
	_, err := r.Resource(client.ParseResource("configmaps"), "shop").Delete(r.Ctx, "before")
	must.Succeed(t, err)
	for user, g := range graphs {
		want := r.got(user)
		if one := map[string]string{"shop": "configmaps shop/after", "names": "nodes /after", "all": "secrets shop/after"}[user]; !slices.Contains(want, one) {
			t.Errorf("user %s may get %q, want also %s", user, want, one)
		}
		r.WaitFor("the graph of "+user+" after changes", func() bool { return g.has(want...) })
		g.mu.Lock()
		for name := range g.ever {
			if user == "shop" && (strings.HasPrefix(name, "secrets") || strings.Contains(name, "prod")) || user == "names" && (strings.HasPrefix(name, "configmaps") || strings.Contains(name, "shop/")) {
				t.Errorf("user %s has received %s", user, name)
			}
		}
		g.mu.Unlock()
		if _, told := lacks.Load(user + " watchgraph"); told == (user == "all") {
			t.Errorf("user %s receives that objects are left out: %t", user, told)
		}
	}
	g := r.graph("writes")
	r.WaitFor("a refusal", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.err != nil
	})
	if !errors.Is(g.err, client.ErrForbidden) || len(g.ever) > 0 {
		t.Errorf("a user without get: %v and %v, want Forbidden", g.err, g.ever)
	}
}

// A watch of the graph follows the users file: what is not allowed any more is not sent, and the graph is what the user may get by now.
// It ends when the user is taken away.
func TestGraphAfterRevocation(t *testing.T) {
	t.Parallel()
	const u = "version: 1\nusers: {u: {may: [{verbs: [read], kinds: [secrets], namespaces: [prod]}]}, other: {roles: [viewer]}}\n"
	f := usersOf(t, u)
	current := &access.Current{}
	current.Set(f.Table())
	r := startWith(t, allinone.Config{Auth: true, Users: f, Graph: func(g *graph.Config) { g.Access = current }})
	r.noted("secrets", "prod", "before", "")
	r.noted("secrets", "shop", "elsewhere", "")
	g := r.graph("u")
	before := r.secrets("prod")
	r.WaitFor("the graph before", func() bool { return g.has(before...) })
	current.Set(usersOf(t, strings.Replace(u, "prod", "shop", 1)).Table())
	r.noted("secrets", "prod", "after", "")
	after := r.secrets("shop")
	r.WaitFor("the graph after", func() bool { return g.has(after...) })
	g.mu.Lock()
	if _, seen := g.ever["secrets prod/after"]; seen {
		t.Error("the user has received an object that was created after the revocation")
	}
	g.mu.Unlock()
	current.Set(usersOf(t, "version: 1\nusers: {other: {roles: [viewer]}}\n").Table())
	r.noted("secrets", "shop", "after", "")
	r.WaitFor("the end of the watch", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.err != nil
	})
	if _, seen := g.ever["secrets shop/after"]; seen || !errors.Is(g.err, client.ErrForbidden) {
		t.Errorf("after the user was taken away: %v, and an object was sent: %t", g.err, seen)
	}
}

// The continue tokens of pages of the graph are encrypted for users who may not get all objects, because a page can end behind an object
// that the user may not get, and lead through all pages.
func TestGraphTokensRevealNothing(t *testing.T) {
	t.Parallel()
	r := startUsers(t, onlyShop)
	labels := map[string]string{}
	for i := range 3500 {
		labels[fmt.Sprintf("label-%d", i)] = strings.Repeat("x", 60)
	}
	for i := range 5 {
		_, err := r.Resource(client.ParseResource("configmaps"), "shop").Create(r.Ctx, &client.Object{Metadata: &client.ObjectMeta{Name: fmt.Sprintf("wide-%d", i), Labels: labels}})
		must.Succeed(t, err)
	}
	p := r.as("shop")
	at := bus.RealmAPI(bus.DefaultRealm, p.user, bus.VerbWatchGraph)
	found, pages := 0, 0
	for token := ""; ; pages++ {
		p.replies.Reset()
		must.Succeed(t, p.ask(at, &coppicev1.WatchGraphRequest{Page: true, Continue: token}))
		body, _, _ := bytes.Cut(p.replies.Bytes(), []byte("map["))
		var reply coppicev1.GraphBatch
		must.Succeed(t, proto.Unmarshal(body, &reply))
		for _, c := range reply.GetChanges() {
			if strings.HasPrefix(c.GetObject().GetMetadata().GetName(), "wide") {
				found++
			}
		}
		if token = reply.GetContinue(); token == "" {
			break
		}
		plain, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || strings.Contains(string(plain)+token, "configmaps") || bytes.Contains(plain, []byte("wide")) {
			t.Fatalf("the token %q is %q, %v", token, plain, err)
		}
	}
	if found != 5 || pages == 0 {
		t.Errorf("%d objects on %d pages, want 5 on 2 or more", found, pages+1)
	}
	if err := p.ask(at, &coppicev1.WatchGraphRequest{Page: true, Continue: "secrets:cHJvZABh"}); !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("a token of the user's own: %v, want BadRequest", err)
	}
}
