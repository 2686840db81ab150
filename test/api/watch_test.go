package api_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// watched collects the events of a watch in a goroutine.
func (r *realm) watched(o client.ResourceClient, opts client.WatchOptions) (events <-chan string, ready <-chan struct{}) {
	r.TB.Helper()
	ctx, cancel := context.WithCancel(r.Ctx)
	sent, first := make(chan string, 100), make(chan struct{})
	done := make(chan struct{})
	r.TB.Cleanup(func() {
		cancel()
		<-done
	})
	seq := o.Watch(ctx, opts)
	go func() {
		defer close(done)
		started := false
		for e, err := range seq {
			switch {
			case err != nil:
				sent <- "error: " + err.Error()
			case e.Object != nil:
				sent <- fmt.Sprintf("%s %s", e.Type, e.Object.GetMetadata().GetName())
			case !started:
				started = true
				close(first)
			}
		}
	}()
	return sent, first
}

func (r *realm) expect(events <-chan string, want ...string) {
	r.TB.Helper()
	for _, w := range want {
		if got := testkit.Receive(r.TB, r.Ctx, w, events); got != w {
			r.TB.Fatalf("the watch sends %q, want %q", got, w)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Resource(pods, "shop")
	label := func(name, value string) {
		t.Helper()
		_, err := shop.Patch(r.Ctx, name, fmt.Appendf(nil, `{"metadata":{"labels":{"app":%q}}}`, value))
		must.Succeed(t, err)
	}
	r.Create(pods, "shop", named("before"))
	label("before", "web")
	all, ready := r.watched(shop, client.WatchOptions{})
	testkit.Receive(t, r.Ctx, "the first state", ready)
	web, webReady := r.watched(shop, client.WatchOptions{LabelSelector: "app=web"})
	testkit.Receive(t, r.Ctx, "the first state", webReady)
	r.expect(all, "ADDED before")
	r.expect(web, "ADDED before")

	r.Create(pods, "shop", named("a"))
	r.Create(pods, "elsewhere", named("b"))
	label("a", "web")
	label("a", "db")
	r.delete(pods, "shop", "a", "")
	r.expect(all, "ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a")
	// A9: an object that starts to match the selector is added, one that stops is deleted.
	r.expect(web, "ADDED a", "DELETED a")
	r.delete(pods, "shop", "before", "")
	r.expect(all, "DELETED before")
	r.expect(web, "DELETED before")
}

// A watch continues from a revision without a gap. From a revision whose changes are no
// longer kept it is refused, and a new list and watch succeeds.
func TestWatchFromRevision(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Resource(pods, "shop")
	first := r.Create(pods, "shop", named("a"))
	r.Create(pods, "shop", named("b"))
	old, _ := r.watched(shop, client.WatchOptions{FromRevision: first.GetMetadata().GetResourceVersion()})
	if got := testkit.Receive(t, r.Ctx, "a refusal", old); got[:6] != "error:" {
		t.Fatalf("a watch that begins before any other sends %q", got)
	}
	page, err := shop.ListPage(r.Ctx)
	must.Succeed(t, err)
	r.Create(pods, "shop", named("c"))
	events, _ := r.watched(shop, client.WatchOptions{FromRevision: page.Revision})
	r.Create(pods, "shop", named("d"))
	r.expect(events, "ADDED c", "ADDED d")
	again, _ := r.watched(shop, client.WatchOptions{FromRevision: page.Revision})
	r.expect(again, "ADDED c", "ADDED d")
}

// The update that removes the last finalizer removes the object.
func TestWatchRemoval(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Resource(pods, "shop")
	events := make(chan client.WatchEvent, 10)
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(r.Ctx)
	done := make(chan struct{})
	defer func() {
		cancel()
		<-done
	}()
	go func() {
		defer close(done)
		first := true
		for e, err := range shop.Watch(ctx) {
			switch {
			case err != nil:
				return
			case e.Object != nil:
				events <- e
			case first:
				first = false
				close(ready)
			}
		}
	}()
	testkit.Receive(t, r.Ctx, "the first state", ready)
	blocked := named("blocked")
	blocked.Metadata.Finalizers = []string{"example.com/x"}
	r.Create(pods, "shop", blocked)
	r.delete(pods, "shop", "blocked", "")
	last := r.Get(pods, "shop", "blocked")
	update := proto.Clone(last).(*coppicev1.Object)
	update.Metadata.Finalizers = nil
	if _, err := shop.Update(r.Ctx, update); err != nil {
		t.Fatal(err)
	}
	r.Create(pods, "shop", named("next"))
	var received []client.WatchEvent
	for range 4 {
		received = append(received, testkit.Receive(t, r.Ctx, "an event", events))
	}
	var types []string
	for _, e := range received {
		types = append(types, string(e.Type)+" "+e.Object.GetMetadata().GetName())
	}
	// A2.15: a mark is not a removal, and a removal is one event.
	if got, want := fmt.Sprint(types), "[ADDED blocked MODIFIED blocked DELETED blocked ADDED next]"; got != want {
		t.Fatalf("the watch sends %s, want %s", got, want)
	}
	removed := proto.Clone(received[2].Object).(*coppicev1.Object)
	// A2.11, A9: the object is the one that was stored, at the revision of its removal.
	if rv := removed.GetMetadata().GetResourceVersion(); rv <= last.GetMetadata().GetResourceVersion() {
		t.Errorf("removed at %d, and stored at %d", rv, last.GetMetadata().GetResourceVersion())
	}
	removed.Metadata.ResourceVersion = last.GetMetadata().GetResourceVersion()
	if !proto.Equal(removed, last) {
		t.Errorf("the watch sent the removal of %v, stored was %v", removed, last)
	}
}
