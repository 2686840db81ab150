package deletion

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
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

// findVictims returns the objects and collections that the arguments and flags select.
func findVictims(ctx context.Context, s *cli.Session, args []string, f deleteFlags, failed *cli.Failures) ([]victim, error) {
	if err := cli.CheckSelectors(f.every, f.selector, f.Fields); err != nil {
		return nil, err
	}
	if len(f.Files) > 0 {
		return fileVictims(ctx, s, args, f, failed)
	}
	targets, err := s.Targets(args)
	if err == nil {
		err = s.CheckTargets(targets, f.Where, f.every || f.selector != "" || f.Fields != "")
	}
	if err != nil {
		return nil, err
	}
	var victims []victim
	for _, t := range targets {
		if len(t.Names) == 0 {
			victims = append(victims, victim{kind: t.Kind, namespace: f.NamespaceOf(t.Kind), collection: true})
		}
		for _, name := range t.Names {
			victims = append(victims, victim{kind: t.Kind, namespace: f.NamespaceOf(t.Kind), name: name})
		}
	}
	return victims, nil
}

// splitCollections returns victims as the server deletes them, which selects by labels only, and in one
// namespace: the objects that --field-selector selects, and with -A a collection for each namespace.
func splitCollections(ctx context.Context, s *cli.Session, victims []victim, f deleteFlags) (list []victim, err error) {
	for _, v := range victims {
		parts := []victim{v}
		switch {
		case v.collection && f.Fields != "":
			parts, err = selectedVictims(ctx, s, v.kind, f)
		case v.collection && f.AllNamespaces && v.kind.Namespaced():
			parts, err = collectionsIn(ctx, s, v.kind, f)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, parts...)
	}
	return list, nil
}

// selectedVictims are the objects that --field-selector selects.
func selectedVictims(ctx context.Context, s *cli.Session, k client.Kind, f deleteFlags) (victims []victim, err error) {
	f.Uninitialized = true
	err = s.Each(ctx, cli.Target{Kind: k}, f.Where, f.selector, func(o *coppicev1.Object) error {
		m := o.GetMetadata()
		victims = append(victims, victim{kind: k, namespace: m.GetNamespace(), name: m.GetName(), uid: m.GetUid()})
		return nil
	})
	return victims, err
}

// fileVictims returns the objects of manifests in the order in which they are deleted: the
// last first, Namespaces after their contents, and kinds after their objects.
func fileVictims(ctx context.Context, s *cli.Session, args []string, f deleteFlags, failed *cli.Failures) ([]victim, error) {
	if f.every || f.selector != "" || f.Fields != "" {
		return nil, cli.UsageErrorf("--all, -l and --field-selector select objects; they do not go with -f")
	}
	entries, err := s.Entries(ctx, f.FileFlags, args)
	if err != nil {
		return nil, err
	}
	var victims []victim
	for _, e := range entries {
		if skipUnregistered(s, e, f, failed) {
			continue
		}
		i, err := s.PlaceNamed(e, f.NamespaceOfManifests())
		if err != nil {
			failed.Add(err)
			continue
		}
		victims = append(victims, victim{kind: i.Kind, namespace: i.Namespace, name: e.Object.GetMetadata().GetName(), at: e.At.String()})
	}
	slices.Reverse(victims)
	slices.SortStableFunc(victims, func(a, b victim) int { return cmp.Compare(a.deletionRank(), b.deletionRank()) })
	return victims, nil
}

// deletionRank orders deletions: it is 0 for an object that contains no others, 1 for a Namespace, and 2 for a kind.
func (v victim) deletionRank() int {
	return slices.Index([]client.Resource{cli.NamespacesResource, client.KindsResource}, client.ResourceOf(v.kind)) + 1
}

// skipUnregistered reports whether the kind of an object is not registered, perhaps because it was
// deleted before. Such an object does not exist; with --ignore-not-found that is a warning only.
func skipUnregistered(s *cli.Session, e manifestfile.Entry, f deleteFlags, failed *cli.Failures) bool {
	if e.Err != nil {
		return false
	}
	o := e.Object
	if _, registered := s.Kinds.Of(o.GetApiVersion(), o.GetKind()); registered {
		return false
	}
	err := fmt.Errorf("%s %q not found: the kind %s %s is not registered in realm %q; `coppice get kinds` shows those that are",
		o.GetKind(), o.GetMetadata().GetName(), o.GetApiVersion(), o.GetKind(), s.Realm)
	if f.ignoreNotFound {
		s.Warn(e.At, []string{err.Error()})
	} else {
		failed.Add(fmt.Errorf("%s: %w", e.At, err))
	}
	return true
}

// collectionsIn returns a collection for each namespace that has objects of a kind.
func collectionsIn(ctx context.Context, s *cli.Session, k client.Kind, f deleteFlags) (list []victim, err error) {
	found := map[string]bool{}
	f.Uninitialized = true // they go as well
	err = s.Each(ctx, cli.Target{Kind: k}, f.Where, f.selector, func(o *coppicev1.Object) error {
		found[o.GetMetadata().GetNamespace()] = true
		return nil
	})
	for _, ns := range slices.Sorted(maps.Keys(found)) {
		list = append(list, victim{kind: k, namespace: ns, collection: true})
	}
	return list, err
}
