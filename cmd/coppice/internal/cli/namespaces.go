package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// NamespacesResource are the objects of kind Namespace.
var NamespacesResource = client.Resource{Plural: "namespaces"}

// EachImplicit calls visit for the namespaces that have objects and no Namespace
// object, in order. They are optional.
func (s *Session) EachImplicit(ctx context.Context, visit func(*coppicev1.Object) error) error {
	var used []string
	ok, err := s.Optional(ctx, lookup.AboutImplicit, func(ctx context.Context) (err error) {
		used, err = s.usedNamespaces(ctx)
		return err
	})
	if !ok {
		return err
	}
	for o, err := range s.Client.Resource(NamespacesResource, "").List(ctx, client.IncludeUninitialized(true)) {
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
func (s *Session) usedNamespaces(ctx context.Context) ([]string, error) {
	used := map[string]bool{}
	for _, k := range s.Kinds.All() {
		if !k.Namespaced() {
			continue
		}
		objects := s.Objects(k, "")
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
			next = serve.ContinueAfterNamespace(namespace)
		}
	}
	return slices.Sorted(maps.Keys(used)), nil
}

// implicitError is that of a namespace that has objects and no Namespace object.
type implicitError struct {
	name string
	err  error // it was not found
}

func (e *implicitError) Unwrap() error { return e.err }

func (e *implicitError) Error() string {
	return fmt.Sprintf("%[1]v: it has objects, but no Namespace object: `echo '{apiVersion: v1, kind: Namespace, metadata: {name: %[2]s}}' | coppice create -f -` creates one, and `coppice delete all --all -n %[2]s` deletes the objects",
		e.err, e.name)
}

// IfImplicit makes the error of an object that was not found an implicitError if it is a namespace that has objects.
func (s *Session) IfImplicit(ctx context.Context, k client.Kind, name string, err error) error {
	if client.ResourceOf(k) != NamespacesResource || !errors.Is(err, client.ErrNotFound) {
		return err
	}
	used := false
	_, failed := s.Optional(ctx, lookup.AboutImplicit, func(ctx context.Context) (err error) {
		used, err = s.hasObjects(ctx, name)
		return err
	})
	switch {
	case failed != nil:
		return failed
	case used:
		return &implicitError{name, err}
	}
	return err
}

// hasObjects reports whether a namespace has objects.
func (s *Session) hasObjects(ctx context.Context, namespace string) (bool, error) {
	for _, k := range s.Kinds.All() {
		if !k.Namespaced() {
			continue
		}
		page, err := s.Objects(k, namespace).ListPage(ctx, client.Limit(1), client.IncludeUninitialized(true))
		if err != nil || len(page.Objects) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}
