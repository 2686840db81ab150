package main

import (
	"context"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api"
)

// namespacesResource are the objects of kind Namespace.
var namespacesResource = client.Resource{Plural: "namespaces"}

// eachImplicit calls visit for the namespaces that have objects and no Namespace
// object, in order. They are optional.
func (s *session) eachImplicit(ctx context.Context, visit func(*coppicev1.Object) error) error {
	var used []string
	ok, err := s.Optional(ctx, lookup.AboutImplicit, func(ctx context.Context) (err error) {
		used, err = s.usedNamespaces(ctx)
		return err
	})
	if !ok {
		return err
	}
	for o, err := range s.c.Resource(namespacesResource, "").List(ctx, client.IncludeUninitialized(true)) {
		if err != nil {
			return err
		}
		used = slices.DeleteFunc(used, func(n string) bool { return n == o.GetMetadata().GetName() })
	}
	for _, name := range used {
		if err := visit(printing.ImplicitNamespace(name)); err != nil {
			return err
		}
	}
	return nil
}

// usedNamespaces returns the namespaces that have objects, in order. It reads one
// object of each kind and namespace.
func (s *session) usedNamespaces(ctx context.Context) ([]string, error) {
	used := map[string]bool{}
	for _, k := range s.Kinds.All() {
		if !k.Namespaced() {
			continue
		}
		objects := s.objects(k, "")
		for next := ""; ; {
			page, err := objects.ListPage(ctx, client.Limit(1), client.Continue(next), client.IncludeUninitialized(true))
			if err != nil {
				return nil, err
			}
			if len(page.Objects) == 0 {
				break
			}
			namespace := page.Objects[0].GetMetadata().GetNamespace()
			used[namespace] = true
			next = api.ContinueAfterNamespace(namespace)
		}
	}
	return slices.Sorted(maps.Keys(used)), nil
}
