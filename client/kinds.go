package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// KindsResource is the resource of the objects that register kinds.
var KindsResource = Resource{Group: lifecycle.Group, Plural: "kinds"}

// Kind is a registered kind.
type Kind = lifecycle.KindSpec

// Kinds are the kinds of a realm.
type Kinds struct {
	list []Kind
}

// Kinds lists the kinds that are registered.
func (c *Client) Kinds(ctx context.Context) (*Kinds, error) {
	ks := &Kinds{list: []Kind{{
		Group: lifecycle.Group, Kind: "Kind", Plural: "kinds", Singular: "kind", Scope: lifecycle.ScopeCluster,
		Versions: []lifecycle.KindVersion{{Name: "v1"}},
	}}}
	for o, err := range c.Objects(KindsResource, "").List(ctx, ListOptions{}) {
		if err != nil {
			return nil, err
		}
		var k Kind
		if err := json.Unmarshal(o.GetSpec(), &k); err != nil {
			return nil, fmt.Errorf("kind %s: %w", o.GetMetadata().GetName(), err)
		}
		ks.list = append(ks.list, k)
	}
	return ks, nil
}

// All are all kinds, ordered by resource.
func (ks *Kinds) All() []Kind {
	list := slices.Clone(ks.list)
	slices.SortFunc(list, func(a, b Kind) int {
		return strings.Compare(ResourceOf(a).String(), ResourceOf(b).String())
	})
	return list
}

// ResourceOf is the resource of a kind.
func ResourceOf(k Kind) Resource { return Resource{Group: k.Group, Plural: k.Plural} }

// Namespaced reports whether a kind's objects live in namespaces.
func Namespaced(k Kind) bool { return k.Scope == lifecycle.ScopeNamespaced }

// Of returns the kind of an apiVersion and a kind's name.
func (ks *Kinds) Of(apiVersion, kind string) (Kind, bool) {
	group := lifecycle.GroupOf(apiVersion)
	for _, k := range ks.list {
		if k.Group == group && k.Kind == kind {
			return k, true
		}
	}
	return Kind{}, false
}

// ResourceName is the resource of an apiVersion and a kind's name, or what they
// are if they are not registered.
func (ks *Kinds) ResourceName(apiVersion, kind string) string {
	if k, ok := ks.Of(apiVersion, kind); ok {
		return ResourceOf(k).String()
	}
	return strings.ToLower(kind)
}

// Find returns the kind that people mean by a word: a plural, a singular, a
// short name, each also with the group behind a dot, in upper or lower case.
func (ks *Kinds) Find(word string) (Kind, error) {
	lower := strings.ToLower(word)
	name, group, qualified := strings.Cut(lower, ".")
	var found []Kind
	for _, k := range ks.list {
		if qualified && k.Group != group {
			continue
		}
		if name == k.Plural || name == k.Singular || name == strings.ToLower(k.Kind) || slices.Contains(k.ShortNames, name) {
			found = append(found, k)
		}
	}
	switch {
	case len(found) == 0:
		return Kind{}, lifecycle.ErrUnknownKind(word)
	case len(found) > 1 && !qualified:
		// As in kubectl the core group comes first; otherwise it must be said.
		for _, k := range found {
			if k.Group == "" {
				return k, nil
			}
		}
		var names []string
		for _, k := range found {
			names = append(names, ResourceOf(k).String())
		}
		return Kind{}, lifecycle.ErrBadRequest("%q may be %s; say which", word, strings.Join(names, " or "))
	}
	return found[0], nil
}
