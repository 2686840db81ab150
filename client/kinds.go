package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
)

// KindsResource is the resource of the objects that register kinds.
var KindsResource = Resource{Group: api.Group, Plural: "kinds"}

// NewKindObject returns the object of KindsResource that registers a kind.
func NewKindObject(k Kind) *Object {
	return &Object{ApiVersion: api.APIVersion, Kind: "Kind", Metadata: &ObjectMeta{Name: k.Resource()}, Spec: k.JSON()}
}

// Kinds are the kinds of a realm at one time. It is safe for concurrent use.
type Kinds struct {
	list []Kind
}

// Kinds lists the kinds that are registered in the realm.
func (c *Client) Kinds(ctx context.Context, opts ...CallOption) (*Kinds, error) {
	return ListKinds(ctx, c, opts...)
}

// ListKinds is Client.Kinds for other implementations of Interface.
func ListKinds(ctx context.Context, c Interface, opts ...CallOption) (*Kinds, error) {
	o := collect(opts, CallOption.ApplyToCall)
	ks := &Kinds{list: []Kind{{
		Group: api.Group, Kind: "Kind", Plural: "kinds", Singular: "kind", Scope: api.ScopeCluster,
		Versions: []KindVersion{{Name: "v1"}},
	}}}
	for o, err := range c.Resource(KindsResource, "").List(ctx, ReplyInto(o.Reply)) {
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

// All returns the kinds, ordered by resource.
func (ks *Kinds) All() []Kind {
	list := slices.Clone(ks.list)
	slices.SortFunc(list, func(a, b Kind) int { return strings.Compare(a.Resource(), b.Resource()) })
	return list
}

// Of returns the kind with an apiVersion and a name.
func (ks *Kinds) Of(apiVersion, kind string) (Kind, bool) {
	group := api.GroupOf(apiVersion)
	for _, k := range ks.list {
		if k.Group == group && k.Kind == kind {
			return k, true
		}
	}
	return Kind{}, false
}

// ResourceName returns the resource of a kind. If the kind is not registered, it returns
// the kind's name in lower case, with the group: "bucket.storage.example.com".
func (ks *Kinds) ResourceName(apiVersion, kind string) string {
	if k, ok := ks.Of(apiVersion, kind); ok {
		return k.Resource()
	}
	return Kind{Group: api.GroupOf(apiVersion), Plural: strings.ToLower(kind)}.Resource()
}

// Find returns the kind that a person names: by its plural, its singular, its kind or a
// short name, in upper or lower case, and optionally with the group after a dot. Of
// several kinds with the same name, the one of the core group is returned; if there is
// none, the error lists them.
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
		return Kind{}, api.UnknownKind(word)
	case len(found) > 1 && !qualified:
		// As in kubectl, the core group has precedence.
		for _, k := range found {
			if k.Group == "" {
				return k, nil
			}
		}
		var names []string
		for _, k := range found {
			names = append(names, k.Resource())
		}
		return Kind{}, &Error{Reason: ErrBadRequest, Message: fmt.Sprintf("find kind %q: it may be %s; use the name with its group", word, strings.Join(names, " or "))}
	}
	return found[0], nil
}
