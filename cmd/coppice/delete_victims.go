package main

import (
	"context"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// victim is an object that is to be deleted, or all objects of a kind in a namespace that
// match the selector, with --all without one.
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
	if err := checkSelection(f.every, f.selector); err != nil {
		return nil, err
	}
	if len(f.files) > 0 {
		return s.fileVictims(ctx, args, f, failed)
	}
	targets, err := s.targets(args)
	if err != nil {
		return nil, err
	}
	var victims []victim
	for _, t := range targets {
		switch {
		case len(t.names) > 0 && (f.every || f.selector != ""):
			return nil, wrong("--all and -l select objects; they do not go with names")
		case len(t.names) > 0 && f.all:
			return nil, wrong("-A does not go with names: name the namespace with -n")
		case len(t.names) == 0 && !f.every && f.selector == "":
			ways := "their names, -l SELECTOR or --all"
			if f.noEvery {
				ways = "their names or -l SELECTOR"
			}
			return nil, wrong("no %s are named: write %s", client.ResourceOf(t.kind), ways)
		case len(t.names) == 0:
			namespaces, err := s.namespacesOf(ctx, t, f)
			if err != nil {
				return nil, err
			}
			for _, ns := range namespaces {
				victims = append(victims, victim{kind: t.kind, namespace: ns, collection: true})
			}
		}
		for _, name := range t.names {
			victims = append(victims, victim{kind: t.kind, namespace: f.of(t.kind), name: name})
		}
	}
	return victims, nil
}

// fileVictims are the objects of manifests, the last first: what a manifest
// builds up is taken down in the other order.
func (s *session) fileVictims(ctx context.Context, args []string, f deleteFlags, failed *failures) ([]victim, error) {
	if f.every || f.selector != "" {
		return nil, wrong("--all and -l select objects; they do not go with -f")
	}
	entries, err := s.entries(ctx, f.fileFlags, args)
	if err != nil {
		return nil, err
	}
	var victims []victim
	for _, e := range entries {
		i, err := s.placeNamed(e, f.namespace)
		if err != nil {
			failed.add(err)
			continue
		}
		victims = append(victims, victim{kind: i.kind, namespace: i.namespace, name: e.Object.GetMetadata().GetName(), at: e.At.String()})
	}
	slices.Reverse(victims)
	return victims, nil
}

// namespacesOf are the namespaces in which to delete: with -A all that have
// such objects.
func (s *session) namespacesOf(ctx context.Context, t target, f deleteFlags) ([]string, error) {
	if !f.all || !t.kind.Namespaced() {
		return []string{f.of(t.kind)}, nil
	}
	found := map[string]bool{}
	f.uninitialized = true // they go as well
	err := s.each(ctx, t, f.where, f.selector, func(o *coppicev1.Object) error {
		found[o.GetMetadata().GetNamespace()] = true
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}
