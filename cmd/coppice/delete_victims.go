package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// victim is an object that is to be deleted, or all objects of a kind that match the selectors, with
// --all without one.
type victim struct {
	kind            client.Kind
	namespace, name string
	// at is where it was named, empty on the command line.
	at string
	// collection is true for objects that match; name is empty then.
	collection bool
	uid        string // empty if it is not known
}

// victims returns the objects and collections that the arguments and flags select.
func (s *session) victims(ctx context.Context, args []string, f deleteFlags, failed *failures) ([]victim, error) {
	if err := checkSelection(f.every, f.selector, f.fields); err != nil {
		return nil, err
	}
	if len(f.files) > 0 {
		return s.fileVictims(ctx, args, f, failed)
	}
	targets, err := s.targets(args)
	if err == nil {
		err = s.checkSelected(targets, f.where, f.every || f.selector != "" || f.fields != "")
	}
	if err != nil {
		return nil, err
	}
	var victims []victim
	for _, t := range targets {
		if len(t.names) == 0 {
			victims = append(victims, victim{kind: t.kind, namespace: f.of(t.kind), collection: true})
		}
		for _, name := range t.names {
			victims = append(victims, victim{kind: t.kind, namespace: f.of(t.kind), name: name})
		}
	}
	return victims, nil
}

// separated returns victims as the server deletes them, which selects by labels only, and in one
// namespace: the objects that --field-selector selects, and with -A a collection for each namespace.
func (s *session) separated(ctx context.Context, victims []victim, f deleteFlags) (list []victim, err error) {
	for _, v := range victims {
		parts := []victim{v}
		switch {
		case v.collection && f.fields != "":
			parts, err = s.selectedVictims(ctx, v.kind, f)
		case v.collection && f.all && v.kind.Namespaced():
			parts, err = s.collections(ctx, v.kind, f)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, parts...)
	}
	return list, nil
}

// selectedVictims are the objects that --field-selector selects.
func (s *session) selectedVictims(ctx context.Context, k client.Kind, f deleteFlags) (victims []victim, err error) {
	f.uninitialized = true
	err = s.each(ctx, target{kind: k}, f.where, f.selector, func(o *coppicev1.Object) error {
		m := o.GetMetadata()
		victims = append(victims, victim{kind: k, namespace: m.GetNamespace(), name: m.GetName(), uid: m.GetUid()})
		return nil
	})
	return victims, err
}

// fileVictims returns the objects of manifests in the order in which they are deleted: the
// last first, Namespaces after their contents, and kinds after their objects.
func (s *session) fileVictims(ctx context.Context, args []string, f deleteFlags, failed *failures) ([]victim, error) {
	if f.every || f.selector != "" || f.fields != "" {
		return nil, wrong("--all, -l and --field-selector select objects; they do not go with -f")
	}
	entries, err := s.entries(ctx, f.fileFlags, args)
	if err != nil {
		return nil, err
	}
	var victims []victim
	for _, e := range entries {
		if s.skipUnregistered(e, f, failed) {
			continue
		}
		i, err := s.placeNamed(e, f.ofManifests())
		if err != nil {
			failed.add(err)
			continue
		}
		victims = append(victims, victim{kind: i.kind, namespace: i.namespace, name: e.Object.GetMetadata().GetName(), at: e.At.String()})
	}
	slices.Reverse(victims)
	slices.SortStableFunc(victims, func(a, b victim) int { return cmp.Compare(a.contains(), b.contains()) })
	return victims, nil
}

// contains is 0 for an object that contains no others, 1 for a Namespace, and 2 for a kind.
func (v victim) contains() int {
	return slices.Index([]client.Resource{namespacesResource, client.KindsResource}, client.ResourceOf(v.kind)) + 1
}

// skipUnregistered reports whether the kind of an object is not registered, perhaps because it was
// deleted before. Such an object does not exist; with --ignore-not-found that is a warning only.
func (s *session) skipUnregistered(e manifestfile.Entry, f deleteFlags, failed *failures) bool {
	if e.Err != nil {
		return false
	}
	o := e.Object
	if _, registered := s.Kinds.Of(o.GetApiVersion(), o.GetKind()); registered {
		return false
	}
	err := fmt.Errorf("%s %q not found: the kind %s %s is not registered in realm %q; `coppice get kinds` shows those that are",
		o.GetKind(), o.GetMetadata().GetName(), o.GetApiVersion(), o.GetKind(), s.realm)
	if f.ignoreNotFound {
		s.warn(e.At, []string{err.Error()})
	} else {
		failed.add(fmt.Errorf("%s: %w", e.At, err))
	}
	return true
}

// collections returns a collection for each namespace that has objects of a kind.
func (s *session) collections(ctx context.Context, k client.Kind, f deleteFlags) (list []victim, err error) {
	found := map[string]bool{}
	f.uninitialized = true // they go as well
	err = s.each(ctx, target{kind: k}, f.where, f.selector, func(o *coppicev1.Object) error {
		found[o.GetMetadata().GetNamespace()] = true
		return nil
	})
	for _, ns := range slices.Sorted(maps.Keys(found)) {
		list = append(list, victim{kind: k, namespace: ns, collection: true})
	}
	return list, err
}
