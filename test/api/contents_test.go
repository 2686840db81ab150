package api_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var (
	namespaces = client.Resource{Plural: "namespaces"}
	configmaps = client.Resource{Plural: "configmaps"}
	nodes      = client.Resource{Plural: "nodes"}
	buckets    = client.Resource{Group: "example.com", Plural: "buckets"}
)

// createAll creates many objects in one request.
func (r *realm) createAll(resource client.Resource, namespace string, count int, of func(i int) *coppicev1.Object) {
	r.TB.Helper()
	objects := make([]*coppicev1.Object, count)
	for i := range objects {
		objects[i] = of(i)
	}
	if _, err := r.Resource(resource, namespace).CreateBatch(r.Ctx, objects, client.Atomic(true)); err != nil {
		r.TB.Fatal(err)
	}
}

// left counts the objects of a kind in a namespace.
func (r *realm) left(resource client.Resource, namespace string) (count int) {
	r.TB.Helper()
	for _, err := range r.Resource(resource, namespace).List(r.Ctx) {
		must.Succeed(r.TB, err)
		count++
	}
	return count
}

// contents returns the number of objects in a namespace or of a kind.
func (r *realm) contents(resource client.Resource, name string) uint32 {
	r.TB.Helper()
	reply, err := r.Resource(resource, "").Resolve(r.Ctx, []string{name})
	must.Succeed(r.TB, err)
	return reply.GetNodes()[0].GetContents()
}

// A namespace is deleted with its contents: three thousand objects of several kinds, with
// and without owners. Some of them wait for an external finalizer.
func TestNamespace(t *testing.T) {
	t.Parallel()
	r := start(t)
	const blocked = 20
	r.Create(namespaces, "", named("shop"))
	node := r.Create(nodes, "", named("node"))
	web := r.Create(deployments, "shop", named("web"))
	orphans := named("orphans")
	orphans.Metadata.Finalizers = []string{lifecycle.FinalizerOrphan}
	orphans = r.Create(replicasets, "shop", orphans)
	r.createAll(configmaps, "shop", 1000, func(i int) *coppicev1.Object { return named(fmt.Sprintf("plain-%d", i)) })
	r.createAll(pods, "shop", 1000, func(i int) *coppicev1.Object {
		return named(fmt.Sprintf("owned-%d", i), []*coppicev1.Object{web, orphans, node}[i%3])
	})
	r.createAll(replicasets, "shop", 1000, func(i int) *coppicev1.Object {
		o := named(fmt.Sprintf("blocked-%d", i))
		if i < blocked {
			o.Metadata.Finalizers = []string{"example.com/x"}
		}
		return o
	})
	r.Create(pods, "market", named("elsewhere"))

	if res := r.delete(namespaces, "", "shop", ""); res.State != client.Pending {
		t.Errorf("%s, want Pending: it waits for what is in it", res.State)
	}
	_, err := r.Resource(pods, "shop").Create(r.Ctx, named("late"))
	if !errors.Is(err, client.ErrForbidden) {
		t.Fatalf("created in a namespace that is being deleted: %v", err)
	}
	contains(t, "the refusal", err.Error(), `pods "late"`, "unable to create new content in namespace shop because it is being terminated")

	r.WaitFor("all to be removed that nothing blocks", func() bool { return r.contents(namespaces, "shop") == blocked })
	if n := r.left(replicasets, "shop"); n != blocked {
		t.Errorf("%d replicasets are left, want %d", n, blocked)
	}
	for i := range blocked {
		if _, err := r.Resource(replicasets, "shop").RemoveFinalizer(r.Ctx, fmt.Sprintf("blocked-%d", i), "example.com/x", client.Note("by hand")); err != nil {
			t.Fatal(err)
		}
	}
	r.Gone(namespaces, "", "shop")
	for _, resource := range []client.Resource{configmaps, pods, replicasets, deployments} {
		if n := r.left(resource, "shop"); n != 0 {
			t.Errorf("%d %s are left", n, resource)
		}
	}
	r.Get(pods, "market", "elsewhere")
	r.Get(nodes, "", "node")
	r.Create(namespaces, "", named("shop"))
	r.Create(pods, "shop", named("again"))
}

// A kind is deleted with its objects, and the collector deletes their dependents of another
// kind. Then the kind is registered again and works as before (C052). An object whose owner
// was never seen is kept in the meantime (X14).
func TestKindTwice(t *testing.T) {
	t.Parallel()
	r := start(t)
	kind := func() {
		t.Helper()
		o := named("buckets.example.com")
		o.Spec = []byte(`{"group":"example.com","kind":"Bucket","plural":"buckets","scope":"Namespaced","versions":[{"name":"v1"}]}`)
		r.Create(client.KindsResource, "", o)
	}
	stranger := named("stranger")
	stranger.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "example.com/v1", Kind: "Bucket", Name: "never", Uid: "never"}}
	r.Create(pods, "shop", stranger)
	for range 2 {
		kind()
		for _, namespace := range []string{"shop", "market"} {
			owner := r.Create(buckets, namespace, named("owner"))
			r.createAll(configmaps, namespace, 50, func(i int) *coppicev1.Object { return named(fmt.Sprintf("of-owner-%d", i), owner) })
		}
		blocked := named("blocked")
		blocked.Metadata.Finalizers = []string{"example.com/x"}
		waits := r.Create(buckets, "shop", blocked)
		r.Create(configmaps, "shop", named("of-blocked", waits))

		r.delete(client.KindsResource, "", "buckets.example.com", "")
		r.WaitFor("all to be removed that nothing blocks", func() bool {
			return r.contents(client.KindsResource, "buckets.example.com") == 1 && r.left(configmaps, "shop") == 1 && r.left(configmaps, "market") == 0
		})
		if _, err := r.Resource(buckets, "shop").Create(r.Ctx, named("late")); !errors.Is(err, client.ErrMethodNotAllowed) {
			t.Errorf("created of a kind that is being withdrawn: %v", err)
		}
		if _, err := r.Resource(client.KindsResource, "").RemoveFinalizer(r.Ctx, "buckets.example.com", lifecycle.FinalizerContents); !errors.Is(err, client.ErrConflict) {
			t.Errorf("its finalizer was removed while there are objects: %v", err)
		}
		if _, err := r.Resource(buckets, "shop").RemoveFinalizer(r.Ctx, "blocked", "example.com/x", client.Note("by hand")); err != nil {
			t.Fatal(err)
		}
		r.Gone(client.KindsResource, "", "buckets.example.com")
		r.Gone(configmaps, "shop", "of-blocked")
		if _, err := r.Resource(buckets, "shop").Get(r.Ctx, "owner"); !errors.Is(err, client.ErrUnknownKind) {
			t.Errorf("the kind is still known: %v", err)
		}
		if o := r.Get(pods, "shop", "stranger"); o.GetMetadata().GetDeletionTimestamp() != nil {
			t.Error("unknown is not absent")
		}
	}
}

// An object that waits for its initializers is deleted with its namespace like other
// objects (A5.7, A8), after its finalizers have completed.
func TestUninitializedContents(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.Create(namespaces, "", named("shop"))
	owner := r.Create(pods, "shop", waiting("owner", "a.example.com"))
	r.Create(pods, "shop", waiting("alone", "a.example.com", "b.example.com"))
	r.Create(pods, "shop", named("owned", owner))
	blocked := waiting("blocked", "a.example.com")
	blocked.Metadata.Finalizers = []string{"example.com/x"}
	r.Create(pods, "shop", blocked)

	r.delete(namespaces, "", "shop", "")
	all := r.Resource(pods, "shop")
	r.WaitFor("all to be removed that nothing blocks", func() bool { return r.listed(all, client.IncludeUninitialized(true)) == "[blocked]" })
	r.WaitFor("the blocked object to be marked", func() bool {
		o, err := all.Get(r.Ctx, "blocked", client.IncludeUninitialized(true))
		must.Succeed(t, err)
		m := o.GetMetadata()
		return m.GetDeletionTimestamp() != nil && len(m.GetInitializers().GetPending()) == 1 // it still waits for one initializer
	})
	r.Get(namespaces, "", "shop")
	if _, err := all.RemoveFinalizer(r.Ctx, "blocked", "example.com/x", client.Note("by hand")); err != nil {
		t.Fatal(err)
	}
	r.Gone(namespaces, "", "shop")
	if _, err := all.Get(r.Ctx, "blocked", client.IncludeUninitialized(true)); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("blocked: %v, want NotFound", err)
	}
}
