package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/labelname"
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

// Find returns the kind that a person names, in upper or lower case: by its plural, its
// singular, its kind or a short name. The group may follow after a dot, and between them a version
// that the kind serves: "deployments.apps", "deployments.v1.apps", "pods.v1". As in kubectl, a dot at the end
// names the core group, which has no name: "pods.", "pods.v1.".
//
// The full name, which is the plural with its group, has precedence over the other exact names,
// and these over short names. As in kubectl, an exact name without a group means the kind of the
// core group, if one has the name. The error for any other name that several kinds have lists them, and
// the error for a version that does not exist lists those that do.
func (ks *Kinds) Find(word string) (Kind, error) {
	lower, isCore := strings.CutSuffix(strings.ToLower(word), ".")
	if !labelname.IsSubdomain(lower) { // empty, or a mistake such as ".apps"
		return Kind{}, api.UnknownKind(word)
	}
	name, rest, qualified := strings.Cut(lower, ".")
	var exact, short, unserved []Kind
	for _, k := range ks.list {
		isExact := name == k.Plural || name == k.Singular || name == strings.ToLower(k.Kind)
		if !isExact && !slices.Contains(k.ShortNames, name) || isCore && k.Group != "" {
			continue
		}
		if qualified && rest != k.Group {
			switch version, ok := versionIn(rest, k.Group); {
			case !ok:
				continue
			case !serves(k, version):
				unserved = append(unserved, k)
				continue
			}
		}
		switch {
		case lower == k.Resource():
			return k, nil
		case isExact:
			exact = append(exact, k)
		default:
			short = append(short, k)
		}
	}
	if core := ofGroup(exact, ""); !qualified && len(core) == 1 {
		return core[0], nil
	}
	for _, found := range [][]Kind{exact, short} {
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return Kind{}, badType("the type %q is ambiguous: it may be %s; write the full name", word, strings.Join(resourceNames(found), " or "))
		}
	}
	if len(unserved) == 0 {
		return Kind{}, api.UnknownKind(word)
	}
	var served []string
	for _, k := range unserved {
		var versions []string
		for _, v := range k.Versions {
			versions = append(versions, v.Name)
		}
		served = append(served, fmt.Sprintf("%s has %s", k.Resource(), strings.Join(versions, ", ")))
	}
	version, _, _ := strings.Cut(rest, ".")
	return Kind{}, badType("the type %q has no version %q: %s", word, version, strings.Join(served, "; "))
}

// versionIn returns the version that stands before a group in what follows the name of a type. In the core
// group, which has no name, only a word that begins like a version counts as one.
func versionIn(rest, group string) (version string, ok bool) {
	if group != "" {
		version, ok = strings.CutSuffix(rest, "."+group)
		return version, ok && !strings.Contains(version, ".")
	}
	number, ok := strings.CutPrefix(rest, "v")
	return rest, ok && !strings.Contains(rest, ".") && number != "" && number[0] >= '0' && number[0] <= '9'
}

func serves(k Kind, version string) bool {
	return slices.ContainsFunc(k.Versions, func(v KindVersion) bool { return v.Name == version })
}

func ofGroup(list []Kind, group string) (found []Kind) {
	for _, k := range list {
		if k.Group == group {
			found = append(found, k)
		}
	}
	return found
}

// resourceNames returns the full names of kinds, in order.
func resourceNames(list []Kind) (names []string) {
	for _, k := range list {
		names = append(names, k.Resource())
	}
	slices.Sort(names)
	return names
}

func badType(format string, args ...any) error {
	return &Error{Reason: ErrBadRequest, Message: fmt.Sprintf(format, args...)}
}
