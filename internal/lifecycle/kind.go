package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Group is the group of Coppice's own kinds, APIVersion their apiVersion.
const (
	Group      = api.Group
	APIVersion = api.APIVersion
)

// The parts of a registration, which package api explains.
type (
	// KindSpec is the spec of a registration.
	KindSpec = api.Kind
	// KindVersion is a version of a kind.
	KindVersion = api.KindVersion
	// DefaultDeletion is what a DELETE without a propagation policy does.
	DefaultDeletion = api.DefaultDeletion
	// GracefulDeletion says which objects end gracefully, and for how long at most.
	GracefulDeletion = api.GracefulDeletion
	// FieldCondition compares a field of an object.
	FieldCondition = api.FieldCondition
)

// The default deletion policies, and the scopes of a kind.
const (
	DeleteDependents = api.DeleteDependents
	OrphanDependents = api.OrphanDependents
	Unsupported      = api.Unsupported
	ScopeNamespaced  = api.ScopeNamespaced
	ScopeCluster     = api.ScopeCluster
)

// Kind is a registered kind. It is immutable.
type Kind struct {
	KindSpec
	// UID of the object that registered the kind.
	UID uid.UID
	// RegisteredAt is when that object appeared.
	RegisteredAt Time
	resource     string
	brake        BrakePolicy // of KindSpec.Brake
}

// Resource is the kind's resource as "pods" or "replicasets.apps".
func (k *Kind) Resource() string { return k.resource }

// Serves reports whether the kind has the version.
func (k *Kind) Serves(version string) bool {
	return slices.ContainsFunc(k.Versions, func(v KindVersion) bool { return v.Name == version })
}

// APIVersion is the apiVersion of the kind's first version.
func (k *Kind) APIVersion() string { return APIVersionOf(k.Group, k.Versions[0].Name) }

// DefaultFor is the default deletion policy of a version; of the first version
// if the kind has no such version.
func (k *Kind) DefaultFor(version string) DefaultDeletion {
	found := k.Versions[0].DefaultDeletion
	for _, v := range k.Versions {
		if v.Name == version {
			found = v.DefaultDeletion
		}
	}
	if found == "" {
		return DeleteDependents
	}
	return found
}

// ResourceName joins plural and group: "pods", "replicasets.apps".
func ResourceName(group, plural string) string {
	if group == "" {
		return plural
	}
	return plural + "." + group
}

// CheckResource refuses a group and a plural that no kind can have.
func CheckResource(group, plural string) *Error {
	name := ResourceName(group, plural)
	causes := checkLabel("plural", plural)
	if group != "" {
		causes = append(causes, checkSubdomain("group", group)...)
	}
	causes = append(causes, checkSubdomain("resource", name)...)
	if len(causes) > 0 {
		return ErrBadRequest("%q is not a plural, or a plural and a group: %s", name, causes[0].Message)
	}
	return nil
}

// SplitResource is the group and the plural that ResourceName names.
func SplitResource(resource string) (group, plural string) {
	plural, group, _ = strings.Cut(resource, ".")
	return group, plural
}

type groupKind struct{ group, kind string }

// Kinds is an immutable registry of kinds.
type Kinds struct {
	byKind     map[groupKind]*Kind
	byResource map[string]*Kind
	byUID      map[uid.UID]*Kind
	braked     bool      // a kind has a brake, or had one
	policies   []*Policy // ordered by name
}

// NewKinds returns the registry that knows the kinds without which no other
// can be registered: Kind itself.
func NewKinds() *Kinds {
	ks := &Kinds{byKind: map[groupKind]*Kind{}, byResource: map[string]*Kind{}, byUID: map[uid.UID]*Kind{}}
	ks.add(kindKind)
	return ks
}

var kindKind = newKind(KindSpec{
	Group: Group, Kind: "Kind", Plural: "kinds", Singular: "kind", Scope: ScopeCluster,
	Versions: []KindVersion{{Name: "v1"}},
})

func newKind(spec KindSpec) *Kind {
	brake, _ := parseBrake("", spec.Brake) // checked by validateKind
	return &Kind{KindSpec: spec, resource: ResourceName(spec.Group, spec.Plural), brake: brake}
}

func (ks *Kinds) add(k *Kind) {
	ks.byKind[groupKind{k.Group, k.Kind}] = k
	ks.byResource[k.resource] = k
	if k.UID != "" {
		ks.byUID[k.UID] = k
	}
	ks.braked = ks.braked || k.brake.On()
}

// Of returns the kind of that group and name, or nil.
func (ks *Kinds) Of(group, kind string) *Kind { return ks.byKind[groupKind{group, kind}] }

// named returns the kinds of that name, one for each group, in any order.
func (ks *Kinds) named(kind string) (list []*Kind) {
	for at, k := range ks.byKind {
		if at.kind == kind {
			list = append(list, k)
		}
	}
	return list
}

// OfNode returns the kind of an object. Objects exist only of registered kinds.
func (ks *Kinds) OfNode(n *Node) *Kind { return ks.Of(n.Group(), n.Kind) }

// RegisteredBy returns the kind that an object of kind Kind registers, or nil.
func (ks *Kinds) RegisteredBy(n *Node) *Kind { return ks.byUID[n.UID] }

// Resource returns the kind with that resource, "replicasets.apps", or nil.
func (ks *Kinds) Resource(resource string) *Kind { return ks.byResource[resource] }

// All returns all kinds, ordered by resource.
func (ks *Kinds) All() []*Kind {
	return slices.SortedFunc(maps.Values(ks.byResource), func(a, b *Kind) int {
		return strings.Compare(a.resource, b.resource)
	})
}

// With returns the registry after an object of kind Kind was created or
// updated: after is its node, body its body.
func (ks *Kinds) With(after *Node, body *coppicev1.Body) (*Kinds, error) {
	spec, err := parseKindSpec(body.GetSpec())
	if err != nil {
		return nil, err
	}
	next := ks.clone()
	k := newKind(spec)
	k.UID, k.RegisteredAt = after.UID, after.Appeared()
	next.add(k)
	return next, nil
}

// Without returns the registry after the object that registered a kind was
// deleted.
func (ks *Kinds) Without(registration uid.UID) *Kinds {
	k := ks.byUID[registration]
	if k == nil {
		return ks
	}
	next := ks.clone()
	delete(next.byKind, groupKind{k.Group, k.Kind})
	delete(next.byResource, k.resource)
	delete(next.byUID, registration)
	return next
}

func (ks *Kinds) clone() *Kinds {
	return &Kinds{byKind: maps.Clone(ks.byKind), byResource: maps.Clone(ks.byResource), byUID: maps.Clone(ks.byUID), braked: ks.braked, policies: ks.policies}
}

// IsRegistration reports whether the node is an object of kind Kind.
func IsRegistration(n *Node) bool { return isKind(n.Group(), n.Kind) }

func isKind(group, kind string) bool { return group == Group && kind == "Kind" }

// parseKindSpec reads the spec of an object of kind Kind, and nothing but.
func parseKindSpec(spec []byte) (KindSpec, error) {
	var s KindSpec
	if err := decodeSpec(spec, &s); err != nil {
		return s, fmt.Errorf("not the spec of a Kind: %w", err)
	}
	return s, nil
}

// decodeSpec reads the spec of an object that governs the realm. A member that
// is not known is an error: the realm would not go by it.
func decodeSpec(spec []byte, into any) error {
	err := jsonvalue.Decode(spec, into)
	var t *json.UnmarshalTypeError
	switch {
	case errors.As(err, &t) && t.Field == "":
		return fmt.Errorf("it must be an object, not of type %s", t.Value)
	case t != nil:
		return fmt.Errorf("%q cannot be of type %s", t.Field, t.Value)
	}
	return err
}

// validateKind checks an object of kind Kind. was is the kind before an update, nil for a creation.
// taken says that another object has the name: the creation is then refused as for any other kind,
// and not because the kind is registered already.
func validateKind(ks *Kinds, name string, spec []byte, was *Kind, taken bool) []Cause {
	s, err := parseKindSpec(spec)
	if err != nil {
		return []Cause{invalidValue("spec", string(spec), err.Error())}
	}
	var causes []Cause
	add := func(c ...Cause) { causes = append(causes, c...) }
	if s.Group != "" {
		add(checkSubdomain("spec.group", s.Group)...)
	}
	if s.Kind == "" {
		add(required("spec.kind", ""))
	} else if !kindPattern.MatchString(s.Kind) {
		add(invalidValue("spec.kind", s.Kind, "must consist of letters and digits and start with a letter"))
	}
	if s.Plural == "" {
		add(required("spec.plural", ""))
	} else {
		add(checkLabel("spec.plural", s.Plural)...)
	}
	for i, short := range append([]string{s.Singular}, s.ShortNames...) {
		if short != "" {
			field := "spec.singular"
			if i > 0 {
				field = fmt.Sprintf("spec.shortNames[%d]", i-1)
			}
			add(checkLabel(field, short)...)
		}
	}
	if want := ResourceName(s.Group, s.Plural); name != want && s.Plural != "" {
		add(invalidValue("metadata.name", name, fmt.Sprintf("must be spec.plural+\".\"+spec.group: %q", want)))
	}
	if s.Scope != ScopeNamespaced && s.Scope != ScopeCluster {
		add(notSupported("spec.scope", s.Scope, ScopeCluster, ScopeNamespaced))
	}
	if len(s.Versions) == 0 {
		add(required("spec.versions", "a kind has at least one version"))
	}
	seen := map[string]bool{}
	for i, v := range s.Versions {
		field := fmt.Sprintf("spec.versions[%d]", i)
		add(checkLabel(field+".name", v.Name)...)
		if seen[v.Name] {
			add(Cause{Reason: "FieldValueDuplicate", Field: field + ".name", Message: fmt.Sprintf("Duplicate value: %q", v.Name)})
		}
		seen[v.Name] = true
		switch v.DefaultDeletion {
		case "", DeleteDependents, OrphanDependents, Unsupported:
		default:
			add(notSupported(field+".defaultDeletion", string(v.DefaultDeletion),
				string(DeleteDependents), string(OrphanDependents), string(Unsupported)))
		}
	}
	if isPolicy(s.Group, s.Kind) && (s.Plural != "protectionpolicies" || s.Scope != ScopeCluster) {
		// The permission to change policies names this resource.
		add(invalidValue("spec.plural", s.Plural, "the kind of protection policies is cluster-scoped, with the plural protectionpolicies"))
	}
	add(validateGraceful(s.GracefulDeletion)...)
	_, brake := parseBrake("spec.brake", s.Brake)
	add(brake...)
	switch {
	case was != nil:
		for _, f := range []struct{ field, was, is string }{
			{"spec.group", was.Group, s.Group}, {"spec.kind", was.Kind, s.Kind},
			{"spec.plural", was.Plural, s.Plural}, {"spec.scope", was.Scope, s.Scope},
		} {
			if f.was != f.is {
				add(invalidValue(f.field, f.is, "field is immutable"))
			}
		}
	case taken:
	default:
		add(validateUnregistered(ks, s)...)
	}
	return causes
}

// validateUnregistered checks that neither the kind nor its resource is
// registered under another name.
func validateUnregistered(ks *Kinds, s KindSpec) []Cause {
	if other := ks.Of(s.Group, s.Kind); other != nil {
		return []Cause{invalidValue("spec.kind", s.Kind, fmt.Sprintf("kind %s is registered already, as %s", APIVersionOf(s.Group, s.Kind), other.resource))}
	}
	if other := ks.Resource(ResourceName(s.Group, s.Plural)); other != nil {
		return []Cause{invalidValue("spec.plural", s.Plural, fmt.Sprintf("%s is registered already, for kind %s", other.resource, other.Kind))}
	}
	return nil
}
