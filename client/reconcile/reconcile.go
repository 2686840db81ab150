// Package reconcile runs controllers: programs that bring the world to the state that
// objects describe, and do so again whenever an object changes.
//
// A controller is one function, which gets the key of an object and reads everything else:
//
//	err := reconcile.Run(ctx, c, sites, reconcile.Func(func(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
//		site, err := c.Resource(sites, key.Namespace).Get(ctx, key.Name)
//		switch {
//		case errors.Is(err, client.ErrNotFound):
//			return reconcile.Result{}, nil // it was deleted: there is nothing left to do
//		case err != nil:
//			return reconcile.Result{}, err
//		}
//		fmt.Println(site.GetMetadata().GetName(), "has changed")
//		return reconcile.Result{}, nil
//	}), reconcile.Owns(configMaps), reconcile.Workers(4))
//
// [Run] watches the objects, and the objects that they own, and calls the function for
// each object at the start and after each change. docs/controllers.md explains how to
// write the function.
//
// # What is guaranteed
//
//   - After the last change of an object, the function is called at least once, with no
//     change missed: Get and List return the state after the change.
//   - The function is never called twice at the same time for the same key by one [Run].
//     Several changes of an object may result in one call.
//   - After an error the function is called again for the key, with increasing pauses.
//
// # What is not guaranteed
//
// Several processes that run the same controller all get all keys: run one at a time, or use [WithLeader]. The
// function may be called for an object that has not changed, or that no longer exists.
package reconcile

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/queue"
)

// Key names an object of the resource that a controller is for.
type Key struct {
	// Namespace is empty for cluster-scoped objects.
	Namespace, Name string
}

// KeyOf returns the key of an object.
func KeyOf(o *client.Object) Key {
	return Key{Namespace: o.GetMetadata().GetNamespace(), Name: o.GetMetadata().GetName()}
}

// String returns "namespace/name", or the name of a cluster-scoped object.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Reconciler is what a controller does.
type Reconciler interface {
	// Reconcile brings the world to the state that the object describes. It must be
	// idempotent. It is called from several goroutines, for different keys. If the
	// object no longer exists, Reconcile only drops what it remembers about the object.
	//
	// After an error it is called again, with increasing pauses. After an error that is
	// client.Permanent it is not, until something changes.
	Reconcile(ctx context.Context, key Key) (Result, error)
}

// Func is a function that is a Reconciler.
type Func func(ctx context.Context, key Key) (Result, error)

// Reconcile calls f.
func (f Func) Reconcile(ctx context.Context, key Key) (Result, error) { return f(ctx, key) }

// Run runs a controller for the objects of a resource until ctx ends, and returns nil then.
// It fails if the actor may not watch a resource, or if no kind with the resource is
// registered. Interrupted watches are resumed.
//
// The actor needs the verb watch for the resource and for those of Owns and Watches; with
// Owns also the verb list for kinds, and with WithLeader the verb lease.
func Run(ctx context.Context, c client.Interface, of client.Resource, r Reconciler, opts ...Option) error {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	if o.lease == "" {
		return run(ctx, c, of, r, o)
	}
	leader := append([]client.LeaderOption{client.OnError(func(err error) { o.onError(Key{}, err) })}, o.leader...)
	return c.RunLeader(ctx, o.lease, func(ctx context.Context) error { return run(ctx, c, of, r, o) }, leader...)
}

func run(ctx context.Context, c client.Interface, of client.Resource, r Reconciler, o options) error {
	x := &controller{
		c: c, options: o, reconciler: r, failures: map[Key]int{}, term: ctx,
		// The queue has at most one entry for each object that exists, or did not exist
		// when Reconcile was last called.
		queue:   queue.New[Key](queue.Config{Limit: math.MaxInt}),
		retries: rate.NewLimiter(rate.Limit(o.retriesPerSecond), o.retryBurst),
	}
	primary := newSource(of, o.selector, func(o *client.Object) []Key { return []Key{KeyOf(o)} })
	sources := []*source{primary}
	if len(o.owns) > 0 {
		keys, err := controllerKeys(ctx, c, of)
		if err != nil {
			return fmt.Errorf("reconcile %s: %w", of, err)
		}
		for _, dependents := range o.owns {
			sources = append(sources, newSource(dependents, "", keys))
		}
	}
	for _, w := range o.watches {
		sources = append(sources, newSource(w.resource, "", w.keys))
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range sources {
		g.Go(func() error { return x.watch(ctx, s) })
	}
	for range o.workers {
		g.Go(func() error { return x.work(ctx) })
	}
	if o.resync > 0 {
		g.Go(func() error { return x.resyncs(ctx, primary) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("reconcile %s: %w", of, err)
	}
	return nil
}

// controllerKeys returns a function that maps an object to its controller, if that is of a resource.
func controllerKeys(ctx context.Context, c client.Interface, of client.Resource) (func(*client.Object) []Key, error) {
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	return func(o *client.Object) []Key {
		ref := client.ControllerOf(o)
		if ref == nil {
			return nil
		}
		kind, ok := kinds.Of(ref.GetApiVersion(), ref.GetKind())
		if !ok || client.ResourceOf(kind) != of {
			return nil
		}
		key := Key{Name: ref.GetName()}
		if kind.Namespaced() {
			key.Namespace = o.GetMetadata().GetNamespace()
		}
		return []Key{key}
	}, nil
}
