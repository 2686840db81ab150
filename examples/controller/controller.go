package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/reconcile"
)

// controller reconciles Sites.
type controller struct {
	c     client.Interface
	files files
}

// Reconcile implements reconcile.Reconciler.
func (x *controller) Reconcile(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
	site, err := x.c.Resource(sites, key.Namespace).Get(ctx, key.Name)
	if errors.Is(err, client.ErrNotFound) {
		return reconcile.Result{}, nil // the collector deletes its ConfigMaps
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if site.GetMetadata().GetDeletionTimestamp() != nil {
		return reconcile.Result{}, x.finalize(ctx, site)
	}
	// The finalizer first: a Site without it may be removed at any time, and its files
	// would stay.
	if !slices.Contains(site.GetMetadata().GetFinalizers(), finalizer) {
		site.Metadata.Finalizers = append(site.Metadata.Finalizers, finalizer)
		if site, err = x.c.Resource(sites, key.Namespace).Update(ctx, site); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := x.files.Create(site.GetMetadata().GetUid()); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, x.pages(ctx, site)
}

// finalize deletes the files of a Site that is being deleted, and removes the finalizer.
func (x *controller) finalize(ctx context.Context, site *client.Object) error {
	m := site.GetMetadata()
	if !slices.Contains(m.GetFinalizers(), finalizer) {
		return nil
	}
	if err := x.files.Delete(m.GetUid()); err != nil {
		return err
	}
	// The account of nats-config --controller has the permission to remove this finalizer.
	m.Finalizers = slices.DeleteFunc(m.Finalizers, func(f string) bool { return f == finalizer })
	_, err := x.c.Resource(sites, m.GetNamespace()).Update(ctx, site)
	if errors.Is(err, client.ErrNotFound) {
		return nil
	}
	return err
}

// pages creates the ConfigMaps of a Site that are missing, and deletes those that are too many.
func (x *controller) pages(ctx context.Context, site *client.Object) error {
	want, err := specOf(site)
	if err != nil {
		return client.Permanent(fmt.Errorf("spec: %w", err)) // until a user changes it
	}
	pages := x.c.Resource(configMaps, site.GetMetadata().GetNamespace())
	have := map[string]bool{}
	for page, err := range pages.List(ctx) {
		if err != nil {
			return err
		}
		if owner := client.ControllerOf(page); owner.GetUid() == site.GetMetadata().GetUid() {
			have[page.GetMetadata().GetName()] = true
		}
	}
	for i := range want.Pages {
		name := fmt.Sprintf("%s-%d", site.GetMetadata().GetName(), i)
		if have[name] {
			delete(have, name)
			continue
		}
		page := &client.Object{Metadata: &client.ObjectMeta{Name: name, Namespace: site.GetMetadata().GetNamespace()}}
		if err := client.SetControllerReference(site, page); err != nil {
			return err
		}
		if _, err := pages.Create(ctx, page); err != nil {
			return err
		}
	}
	for name := range have {
		if _, err := pages.Delete(ctx, name); err != nil && !errors.Is(err, client.ErrNotFound) {
			return err
		}
	}
	return nil
}
