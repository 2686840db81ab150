package api_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// waiting returns an object that waits for its initializers.
func waiting(name string, initializers ...string) *coppicev1.Object {
	o := named(name)
	o.Metadata.Initializers = &coppicev1.Initializers{}
	for _, i := range initializers {
		o.Metadata.Initializers.Pending = append(o.Metadata.Initializers.Pending, &coppicev1.Initializer{Name: i})
	}
	return o
}

// initialized acts as the first initializer of an object: it removes itself from the list,
// or records why it failed.
func (r *realm) initialized(resource client.Resource, namespace, name, failure string) *client.Object {
	r.TB.Helper()
	objects := r.Resource(resource, namespace)
	o, err := objects.Get(r.Ctx, name, client.IncludeUninitialized(true))
	must.Succeed(r.TB, err)
	in := o.GetMetadata().GetInitializers()
	in.Pending = in.GetPending()[1:]
	if failure != "" {
		in.Result = &coppicev1.Status{Status: "Failure", Message: failure}
	}
	result, err := objects.Update(r.Ctx, o)
	must.Succeed(r.TB, err)
	return result
}

// listed returns the names of the objects in a list.
func (r *realm) listed(o client.ResourceClient, opts ...client.ListOption) string {
	r.TB.Helper()
	var names []string
	for object, err := range o.List(r.Ctx, opts...) {
		must.Succeed(r.TB, err)
		names = append(names, object.GetMetadata().GetName())
	}
	return fmt.Sprint(names)
}

// An object that waits for its initializers is hidden from clients that do not ask for
// uninitialized objects. When the last initializer is removed, watches send its ADDED
// event (A8).
func TestInitializersHide(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Resource(pods, "shop")

	r.Create(pods, "shop", named("before"))
	r.Create(pods, "shop", waiting("waits", "a.example.com", "b.example.com"))
	seen, ready := r.watched(shop, client.WatchOptions{})
	testkit.Receive(t, r.Ctx, "the first state", ready)
	events, allReady := r.watched(shop, client.WatchOptions{IncludeUninitialized: true})
	testkit.Receive(t, r.Ctx, "the first state", allReady)
	r.expect(seen, "ADDED before")
	r.expect(events, "ADDED before", "ADDED waits")

	hidden := func() {
		t.Helper()
		if _, err := shop.Get(r.Ctx, "waits"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("get: %v, want NotFound", err)
		}
		if _, err := shop.Get(r.Ctx, "waits", client.IncludeUninitialized(true)); err != nil {
			t.Errorf("get, asked for: %v", err)
		}
		if got := r.listed(shop); got != "[before]" {
			t.Errorf("listed are %s", got)
		}
		if got := r.listed(shop, client.Limit(1), client.IncludeUninitialized(true)); got != "[before waits]" {
			t.Errorf("listed, asked for, are %s", got)
		}
	}
	hidden()
	r.initialized(pods, "shop", "waits", "")
	hidden()
	r.Create(pods, "shop", named("between"))
	r.expect(seen, "ADDED between") // and no event before it
	r.expect(events, "MODIFIED waits", "ADDED between")
	r.delete(pods, "shop", "between", "")
	r.expect(seen, "DELETED between")
	r.expect(events, "DELETED between")

	result := r.initialized(pods, "shop", "waits", "")
	if result.GetMetadata().GetInitializers() != nil {
		t.Errorf("initialized, and replied as %v", result)
	}
	r.expect(seen, "ADDED waits")
	r.expect(events, "MODIFIED waits")
	if o := r.Get(pods, "shop", "waits"); o.GetMetadata().GetInitializers() != nil {
		t.Errorf("initialized, and read as %v", o)
	}
	r.delete(pods, "shop", "waits", "")
	r.expect(seen, "DELETED waits")
}

// Create does not wait for initializers. The reply has them, also in JSON, and a request
// with includeUninitialized returns the object.
func TestInitializersAsJSON(t *testing.T) {
	t.Parallel()
	r := start(t)
	reply := r.request("create", "_.pods.shop", `{"objects":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","initializers":{"pending":[{"name":"a.example.com"}]}}}]}`)
	contains(t, "the reply", string(reply.Data), `"code":201`, `"initializers":{"pending":[{"name":"a.example.com"}]}`)
	reply = r.request("get", "_.pods.shop", `{"names":["a"]}`)
	contains(t, "the reply", string(reply.Data), `"reason":"NotFound"`)
	reply = r.request("get", "_.pods.shop", `{"names":["a"],"includeUninitialized":true}`)
	contains(t, "the reply", string(reply.Data), `"name":"a.example.com"`)
	reply = r.request("list", "_.pods.shop", `{}`)
	if objects := decode[map[string]any](t, reply.Data)["objects"]; objects != nil {
		t.Errorf("listed are %v", objects)
	}
	reply = r.request("patch", "_.pods.shop", `{"patches":[{"name":"a","patch":{"metadata":{"initializers":{"pending":[{"name":"b.example.com"}]}}}}]}`)
	contains(t, "the refusal", string(reply.Data), "initializers are removed in order, first to last")
	reply = r.request("patch", "_.pods.shop", `{"patches":[{"name":"a","patch":{"metadata":{"initializers":null}}}]}`)
	contains(t, "the reply", string(reply.Data), `"code":200`)
	r.Get(pods, "shop", "a")
}

// Watches of uninitialized objects see a failed initialization. Then the object is
// removed, after its finalizers. Other watches never see it.
func TestInitializationFails(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Resource(pods, "shop")
	seen, ready := r.watched(shop, client.WatchOptions{})
	testkit.Receive(t, r.Ctx, "the first state", ready)
	events, allReady := r.watched(shop, client.WatchOptions{IncludeUninitialized: true})
	testkit.Receive(t, r.Ctx, "the first state", allReady)

	r.Create(pods, "shop", waiting("goes", "a.example.com", "b.example.com"))
	result := r.initialized(pods, "shop", "goes", "no vaccine")
	if why := result.GetMetadata().GetInitializers().GetResult().GetMessage(); why != "no vaccine" {
		t.Errorf("replied is the result %q", why)
	}
	r.expect(events, "ADDED goes", "MODIFIED goes", "DELETED goes")

	blocked := waiting("blocked", "a.example.com")
	blocked.Metadata.Finalizers = []string{"example.com/x"}
	r.Create(pods, "shop", blocked)
	r.initialized(pods, "shop", "blocked", "no vaccine")
	r.expect(events, "ADDED blocked", "MODIFIED blocked", "MODIFIED blocked")
	if _, err := shop.Get(r.Ctx, "blocked"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("get: %v, want NotFound", err)
	}
	if _, err := shop.RemoveFinalizer(r.Ctx, "blocked", "example.com/x"); err != nil {
		t.Fatal(err)
	}
	r.expect(events, "DELETED blocked")
	r.Create(pods, "shop", named("after"))
	r.expect(seen, "ADDED after")
}

// A dry run of a failed initialization returns the object that would be stored, at the
// current revision.
func TestInitializationFailsDry(t *testing.T) {
	t.Parallel()
	r := start(t)
	blocked := waiting("blocked", "a.example.com")
	blocked.Metadata.Finalizers = []string{"example.com/x"}
	o := r.Create(pods, "shop", blocked)
	revision := o.GetMetadata().GetResourceVersion()
	o.Metadata.Initializers.Result = &coppicev1.Status{Status: "Failure"}
	result, err := r.Resource(pods, "shop").Update(r.Ctx, o, client.DryRun(true))
	must.Succeed(t, err)
	if m := result.GetMetadata(); m.GetDeletionTimestamp() == nil || m.GetResourceVersion() != revision {
		t.Errorf("dry run: %v, want it deleted at revision %d", m, revision)
	}
}

// deletecollection and the collector also delete objects that wait for initializers.
func TestUninitializedGo(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.Create(pods, "shop", waiting("a", "a.example.com"))
	results, err := r.Resource(pods, "shop").DeleteEverything(r.Ctx)
	if err != nil || len(results) != 1 {
		t.Fatalf("deleted %v, %v", results, err)
	}
	owner := r.Create(deployments, "shop", named("web"))
	below := waiting("below", "a.example.com")
	below.Metadata.OwnerReferences = named("", owner).Metadata.OwnerReferences
	r.Create(pods, "shop", below)
	r.delete(deployments, "shop", "web", "")
	r.WaitFor("the end of what waited", func() bool {
		return r.listed(r.Resource(pods, "shop"), client.IncludeUninitialized(true)) == "[]"
	})
}
