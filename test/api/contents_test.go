package api_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
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
	r.t.Helper()
	objects := make([]*coppicev1.Object, count)
	for i := range objects {
		objects[i] = of(i)
	}
	if _, err := r.Resource(resource, namespace).CreateBatch(r.ctx, objects, client.Atomic(true)); err != nil {
		r.t.Fatal(err)
	}
}

// left counts the objects of a kind in a namespace.
func (r *realm) left(resource client.Resource, namespace string) (count int) {
	r.t.Helper()
	for _, err := range r.Resource(resource, namespace).List(r.ctx) {
		if err != nil {
			r.t.Fatal(err)
		}
		count++
	}
	return count
}

// contents returns the number of objects in a namespace or of a kind.
func (r *realm) contents(resource client.Resource, name string) uint32 {
	r.t.Helper()
	reply, err := r.Resource(resource, "").Resolve(r.ctx, []string{name})
	if err != nil {
		r.t.Fatal(err)
	}
	return reply.GetNodes()[0].GetContents()
}

// A namespace is deleted with its contents: three thousand objects of several kinds, with
// and without owners. Some of them wait for an external finalizer.
func TestNamespace(t *testing.T) {
	t.Parallel()
	r := start(t)
	const blocked = 20
	r.create(namespaces, "", named("shop"))
	node := r.create(nodes, "", named("node"))
	web := r.create(deployments, "shop", named("web"))
	orphans := named("orphans")
	orphans.Metadata.Finalizers = []string{lifecycle.FinalizerOrphan}
	orphans = r.create(replicasets, "shop", orphans)
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
	r.create(pods, "market", named("elsewhere"))

	if res := r.delete(namespaces, "", "shop", ""); res.State != client.Pending {
		t.Errorf("%s, want Pending: it waits for what is in it", res.State)
	}
	_, err := r.Resource(pods, "shop").Create(r.ctx, named("late"))
	if !errors.Is(err, client.ErrForbidden) {
		t.Fatalf("created in a namespace that is being deleted: %v", err)
	}
	contains(t, "the refusal", err.Error(), `pods "late"`, "unable to create new content in namespace shop because it is being terminated")

	testkit.WaitFor(t, r.ctx, "all to be removed that nothing blocks", func() bool { return r.contents(namespaces, "shop") == blocked })
	if n := r.left(replicasets, "shop"); n != blocked {
		t.Errorf("%d replicasets are left, want %d", n, blocked)
	}
	for i := range blocked {
		if _, err := r.Resource(replicasets, "shop").RemoveFinalizer(r.ctx, fmt.Sprintf("blocked-%d", i), "example.com/x", client.Note("by hand")); err != nil {
			t.Fatal(err)
		}
	}
	r.gone(namespaces, "", "shop")
	for _, resource := range []client.Resource{configmaps, pods, replicasets, deployments} {
		if n := r.left(resource, "shop"); n != 0 {
			t.Errorf("%d %s are left", n, resource)
		}
	}
	r.get(pods, "market", "elsewhere")
	r.get(nodes, "", "node")
	r.create(namespaces, "", named("shop"))
	r.create(pods, "shop", named("again"))
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
		r.create(client.KindsResource, "", o)
	}
	stranger := named("stranger")
	stranger.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "example.com/v1", Kind: "Bucket", Name: "never", Uid: "never"}}
	r.create(pods, "shop", stranger)
	for range 2 {
		kind()
		for _, namespace := range []string{"shop", "market"} {
			owner := r.create(buckets, namespace, named("owner"))
			r.createAll(configmaps, namespace, 50, func(i int) *coppicev1.Object { return named(fmt.Sprintf("of-owner-%d", i), owner) })
		}
		blocked := named("blocked")
		blocked.Metadata.Finalizers = []string{"example.com/x"}
		waits := r.create(buckets, "shop", blocked)
		r.create(configmaps, "shop", named("of-blocked", waits))

		r.delete(client.KindsResource, "", "buckets.example.com", "")
		testkit.WaitFor(t, r.ctx, "all to be removed that nothing blocks", func() bool {
			return r.contents(client.KindsResource, "buckets.example.com") == 1 && r.left(configmaps, "shop") == 1 && r.left(configmaps, "market") == 0
		})
		if _, err := r.Resource(buckets, "shop").Create(r.ctx, named("late")); !errors.Is(err, client.ErrMethodNotAllowed) {
			t.Errorf("created of a kind that is being withdrawn: %v", err)
		}
		if _, err := r.Resource(client.KindsResource, "").RemoveFinalizer(r.ctx, "buckets.example.com", lifecycle.FinalizerContents); !errors.Is(err, client.ErrConflict) {
			t.Errorf("its finalizer was removed while there are objects: %v", err)
		}
		if _, err := r.Resource(buckets, "shop").RemoveFinalizer(r.ctx, "blocked", "example.com/x", client.Note("by hand")); err != nil {
			t.Fatal(err)
		}
		r.gone(client.KindsResource, "", "buckets.example.com")
		r.gone(configmaps, "shop", "of-blocked")
		if _, err := r.Resource(buckets, "shop").Get(r.ctx, "owner"); !errors.Is(err, client.ErrUnknownKind) {
			t.Errorf("the kind is still known: %v", err)
		}
		if o := r.get(pods, "shop", "stranger"); o.GetMetadata().GetDeletionTimestamp() != nil {
			t.Error("unknown is not absent")
		}
	}
}

// An object that waits for its initializers is deleted with its namespace like other
// objects (A5.7, A8), after its finalizers have completed.
func TestUninitializedContents(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.create(namespaces, "", named("shop"))
	owner := r.create(pods, "shop", waiting("owner", "a.example.com"))
	r.create(pods, "shop", waiting("alone", "a.example.com", "b.example.com"))
	r.create(pods, "shop", named("owned", owner))
	blocked := waiting("blocked", "a.example.com")
	blocked.Metadata.Finalizers = []string{"example.com/x"}
	r.create(pods, "shop", blocked)

	r.delete(namespaces, "", "shop", "")
	all := r.Resource(pods, "shop")
	testkit.WaitFor(t, r.ctx, "all to be removed that nothing blocks", func() bool { return r.listed(all, client.IncludeUninitialized(true)) == "[blocked]" })
	testkit.WaitFor(t, r.ctx, "the blocked object to be marked", func() bool {
		o, err := all.Get(r.ctx, "blocked", client.IncludeUninitialized(true))
		if err != nil {
			t.Fatal(err)
		}
		m := o.GetMetadata()
		return m.GetDeletionTimestamp() != nil && len(m.GetInitializers().GetPending()) == 1 // it still waits for one initializer
	})
	r.get(namespaces, "", "shop")
	if _, err := all.RemoveFinalizer(r.ctx, "blocked", "example.com/x", client.Note("by hand")); err != nil {
		t.Fatal(err)
	}
	r.gone(namespaces, "", "shop")
	if _, err := all.Get(r.ctx, "blocked", client.IncludeUninitialized(true)); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("blocked: %v, want NotFound", err)
	}
}
