package api_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// watched collects what a watch tells, in a goroutine of its own.
func (r *realm) watched(o *client.Objects, opts client.WatchOptions) (events <-chan string, ready <-chan struct{}) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	told, first := make(chan string, 100), make(chan struct{})
	done := make(chan struct{})
	r.t.Cleanup(func() {
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
				told <- "error: " + err.Error()
			case e.Object != nil:
				told <- fmt.Sprintf("%s %s", e.Type.String()[len("TYPE_"):], e.Object.GetMetadata().GetName())
			case !started:
				started = true
				close(first)
			}
		}
	}()
	return told, first
}

func (r *realm) expect(events <-chan string, want ...string) {
	r.t.Helper()
	for _, w := range want {
		if got := testkit.Receive(r.t, r.ctx, w, events); got != w {
			r.t.Fatalf("the watch tells %q, want %q", got, w)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Objects(pods, "shop")
	label := func(name, value string) {
		t.Helper()
		_, err := shop.Patch(r.ctx, name, fmt.Appendf(nil, `{"metadata":{"labels":{"app":%q}}}`, value), nil, client.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.create(pods, "shop", named("before"))
	label("before", "web")
	all, ready := r.watched(shop, client.WatchOptions{})
	testkit.Receive(t, r.ctx, "the first state", ready)
	web, webReady := r.watched(shop, client.WatchOptions{LabelSelector: "app=web"})
	testkit.Receive(t, r.ctx, "the first state", webReady)
	r.expect(all, "ADDED before")
	r.expect(web, "ADDED before")

	r.create(pods, "shop", named("a"))
	r.create(pods, "elsewhere", named("b"))
	label("a", "web")
	label("a", "db")
	r.delete(pods, "shop", "a", "")
	r.expect(all, "ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a")
	r.expect(web, "ADDED a", "DELETED a") // as it enters and leaves the selector
	r.delete(pods, "shop", "before", "")
	r.expect(all, "DELETED before")
	r.expect(web, "DELETED before")
}

// A watch goes on from a revision, without a gap; from one that is not
// remembered it is refused, and to list and watch again then succeeds.
func TestWatchFromRevision(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Objects(pods, "shop")
	first := r.create(pods, "shop", named("a"))
	r.create(pods, "shop", named("b"))
	old, _ := r.watched(shop, client.WatchOptions{FromRevision: first.GetMetadata().GetResourceVersion()})
	if got := testkit.Receive(t, r.ctx, "a refusal", old); got[:6] != "error:" {
		t.Fatalf("a watch from before anybody watched tells %q", got)
	}
	page, err := shop.Page(r.ctx, client.ListOptions{}, "")
	if err != nil {
		t.Fatal(err)
	}
	r.create(pods, "shop", named("c"))
	events, _ := r.watched(shop, client.WatchOptions{FromRevision: page.Revision})
	r.create(pods, "shop", named("d"))
	r.expect(events, "ADDED c", "ADDED d")
	again, _ := r.watched(shop, client.WatchOptions{FromRevision: page.Revision})
	r.expect(again, "ADDED c", "ADDED d")
}
