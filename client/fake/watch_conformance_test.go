package fake_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/coppicetest"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A watch of a fake delivers the events that one of a real realm delivers, with and
// without a selector, with objects that are not initialized, and from a revision.
func TestWatchConformance(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	imitated := watchStory(t, newWorld(t, ctx, fake.New()))
	real := watchStory(t, newWorld(t, ctx, coppicetest.Start(t, client.WithTimeout(testkit.Timeout))))
	for name, want := range real {
		if got := imitated[name]; !slices.Equal(got, want) {
			t.Errorf("%s: the fake delivered\n%q\nwant\n%q", name, got, want)
		}
		if len(want) < 4 {
			t.Errorf("%s: the realm delivered %q only", name, want)
		}
	}
}

// watchStory changes ConfigMaps, and returns the events of several watches.
func watchStory(t *testing.T, w *world) map[string][]string {
	t.Helper()
	c := w.c.Resource(configMaps, "shop")
	act := func(_ any, err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	labelled := func(name, app string) *client.Object {
		o := named(name)
		o.Metadata.Labels = map[string]string{"app": app}
		return o
	}
	act(c.Create(w.ctx, labelled("b", "web")))
	act(c.Create(w.ctx, labelled("a", "db")))
	act(w.c.Resource(configMaps, "other").Create(w.ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "elsewhere"}}))
	page, err := c.ListPage(w.ctx)
	act(page, err)

	type watched struct {
		name   string
		events []string
	}
	options := map[string][]client.WatchOption{
		"all": nil, "selector": {client.LabelSelector("app=web")}, "uninitialized": {client.IncludeUninitialized(true)},
		"revision": {client.FromRevision(page.Revision)},
	}
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	done := make(chan watched, len(options))
	begun := make(chan struct{}, len(options))
	for name, opts := range options {
		go func() {
			seen := watched{name: name}
			for e, err := range c.Watch(ctx, opts...) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
					break
				}
				if e.Type == client.Bookmark {
					if e.Synced {
						seen.events = append(seen.events, "synced")
						begun <- struct{}{}
					}
					continue
				}
				m := e.Object.GetMetadata()
				seen.events = append(seen.events, fmt.Sprintf("%s %s %v terminating:%t %v %s", e.Type, m.GetName(), m.GetLabels(), m.GetDeletionTimestamp() != nil, m.GetFinalizers(), e.Reason))
				if m.GetName() == "last" {
					break
				}
			}
			done <- seen
		}()
	}
	for range len(options) - 1 { // the one from a revision has no Synced
		testkit.Receive(t, w.ctx, "the start of a watch", begun)
	}
	act(c.Patch(w.ctx, "a", []byte(`{"metadata":{"labels":{"app":"web"}}}`)))
	act(c.Patch(w.ctx, "b", []byte(`{"metadata":{"labels":{"app":"db"}}}`)))
	act(c.Patch(w.ctx, "b", []byte(`{"metadata":{"labels":{"app":"db"}}}`)))
	uninitialized := labelled("c", "web")
	uninitialized.Metadata.Initializers = initializers("one.example.com")
	act(c.Create(w.ctx, uninitialized))
	hidden := w.get(configMaps, "shop", "c")
	hidden.Metadata.Initializers = nil
	act(c.Update(w.ctx, hidden))
	act(c.Delete(w.ctx, "a"))
	act(c.Create(w.ctx, labelled("a", "web")))
	finalized := labelled("f", "web")
	finalized.Metadata.Finalizers = []string{external}
	act(c.Create(w.ctx, finalized))
	act(c.Delete(w.ctx, "f"))
	act(c.RemoveFinalizer(w.ctx, "f", external))
	act(c.Create(w.ctx, labelled("last", "web")))
	all := map[string][]string{}
	for range options {
		seen := testkit.Receive(t, w.ctx, "the end of a watch", done)
		all[seen.name] = seen.events
	}
	return all
}
