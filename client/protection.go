package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// protectionBackoff is how often a protected object is looked at again, at the
// least, when it is being deleted and in use.
const protectionBackoff = 5 * time.Second

// RunProtection keeps objects of a kind from being removed while they are in
// use, as Kubernetes' pv-protection does: it adds the finalizer to each object
// that does not have it, and removes it from those that are being deleted when
// user names nobody any more. It runs until ctx ends. Any number of processes
// may run the same protection.
//
// user returns who uses an object, "" for nobody. An object that comes to be
// used after user said so is not protected: whoever begins to use something has
// to look whether it is being deleted.
func (c *Client) RunProtection(ctx context.Context, of Resource, finalizer string, user func(context.Context, *coppicev1.Object) (string, error), opts *FinalizerOptions) error {
	own := FinalizerOptions{}
	if opts != nil {
		own = *opts
	}
	if own.MaxBackoff == 0 {
		own.MaxBackoff = protectionBackoff
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.protect(ctx, of, finalizer) })
	g.Go(func() error {
		return c.RunFinalizer(ctx, finalizer, func(ctx context.Context, call *Call) error {
			by, err := user(ctx, call.Object)
			if err == nil && by != "" {
				err = fmt.Errorf("%s/%s is in use by %s", call.Resource, call.Object.GetMetadata().GetName(), by)
			}
			return err
		}, &own)
	})
	return g.Wait()
}

// protect adds the finalizer to objects as they are and as they come.
func (c *Client) protect(ctx context.Context, of Resource, finalizer string) error {
	for ctx.Err() == nil {
		for e, err := range c.Objects(of, "").IncludeUninitialized().Watch(ctx, WatchOptions{}) {
			if errors.Is(err, Expired) {
				break // watch anew, all of them first
			}
			if err != nil {
				return fmt.Errorf("protection %s: %w", finalizer, err)
			}
			if e.Object == nil || e.Type == coppicev1.WatchEvent_TYPE_DELETED {
				continue
			}
			if err := c.addFinalizer(ctx, of, e.Object, finalizer); err != nil && ctx.Err() == nil {
				return fmt.Errorf("protection %s: %w", finalizer, err)
			}
		}
	}
	return nil
}

// addFinalizer adds a finalizer to an object, unless it is being deleted.
func (c *Client) addFinalizer(ctx context.Context, of Resource, o *coppicev1.Object, finalizer string) error {
	objects := c.Objects(of, o.GetMetadata().GetNamespace()).IncludeUninitialized()
	for {
		m := o.GetMetadata()
		if m.GetDeletionTimestamp() != nil || hasFinalizer(o, finalizer) {
			return nil
		}
		m.Finalizers = append(m.Finalizers, finalizer)
		_, err := objects.Update(ctx, o, WriteOptions{})
		switch {
		case errors.Is(err, NotFound):
			return nil
		case !errors.Is(err, Conflict):
			return err
		}
		if o, err = objects.Get(ctx, m.GetName()); err != nil {
			if errors.Is(err, NotFound) {
				return nil
			}
			return err
		}
	}
}
