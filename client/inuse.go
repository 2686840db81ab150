package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// inUseMaxBackoff is the longest pause before user is called again for an object that is
// being deleted and in use.
const inUseMaxBackoff = 5 * time.Second

// RunInUseFinalizer keeps objects from being removed while they are in use, as Kubernetes'
// pv-protection does: it adds the finalizer to each object that does not have it, and
// removes it from an object that is being deleted when user returns "". It returns when
// ctx ends. Any number of processes may run the same finalizer.
//
// It fails where RunFinalizer does, and if it cannot watch the objects or add the finalizer to one
// of them: start it again then, because new objects do not get the finalizer any more. The actor needs the
// verbs of RunFinalizer, and watch and update.
//
// user returns the name of a user of the object, and "" if nothing uses it. If something
// starts to use the object after user has returned "", the object is removed all
// the same: before a program starts to use an object, it must check that the object is
// not being deleted.
func RunInUseFinalizer(ctx context.Context, c Interface, of Resource, finalizer string, user func(context.Context, *Object) (string, error), opts ...WorkerOption) error {
	o := collect(opts, WorkerOption.ApplyToWorker)
	if o.Backoff.Max == 0 {
		opts = append(opts[:len(opts):len(opts)], Backoff{Min: o.Backoff.Min, Max: inUseMaxBackoff})
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return addFinalizers(ctx, c, of, finalizer, o.OnError) })
	g.Go(func() error {
		return c.RunFinalizer(ctx, finalizer, func(ctx context.Context, call *Call) error {
			by, err := user(ctx, call.Object)
			if err == nil && by != "" {
				err = fmt.Errorf("%s/%s is in use by %s", call.Resource, call.Object.GetMetadata().GetName(), by)
			}
			return err
		}, opts...)
	})
	return g.Wait()
}

// addFinalizers adds the finalizer to all objects, and to new ones until ctx ends.
func addFinalizers(ctx context.Context, c Interface, of Resource, finalizer string, onError func(error)) error {
	for ctx.Err() == nil {
		for e, err := range c.Resource(of, "").Watch(ctx, IncludeUninitialized(true), OnError(onError)) {
			if errors.Is(err, ErrExpired) {
				break // watch again, all objects first
			}
			if err != nil {
				return fmt.Errorf("in-use finalizer %s: %w", finalizer, err)
			}
			if e.Type == Bookmark || e.Type == Deleted {
				continue
			}
			if err := addFinalizer(ctx, c.Resource(of, e.Object.GetMetadata().GetNamespace()), e.Object, finalizer); err != nil && ctx.Err() == nil {
				return fmt.Errorf("in-use finalizer %s: %w", finalizer, err)
			}
		}
	}
	return nil
}

// addFinalizer adds a finalizer to an object, unless the object is being deleted.
func addFinalizer(ctx context.Context, objects ResourceClient, o *Object, finalizer string) error {
	for {
		m := o.GetMetadata()
		if m.GetDeletionTimestamp() != nil || hasFinalizer(o, finalizer) {
			return nil
		}
		m.Finalizers = append(m.Finalizers, finalizer)
		_, err := objects.Update(ctx, o)
		switch {
		case errors.Is(err, ErrNotFound):
			return nil
		case !errors.Is(err, ErrConflict):
			return err
		}
		if o, err = objects.Get(ctx, m.GetName(), IncludeUninitialized(true)); err != nil {
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		}
	}
}
