package printing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Key returns the key of an object as users write it: "pods/web-1".
func Key(k client.Kind, name string) string { return client.ResourceOf(k).String() + "/" + name }

// StatusOf says whether an object is terminating and which finalizers block it, or
// which initializers it waits for, or that it is protected.
func StatusOf(o *coppicev1.Object) string { return statusOf(o, func(f string) string { return f }) }

// statusOf is StatusOf, with other words for each finalizer.
func statusOf(o *coppicev1.Object, finalizer func(name string) string) string {
	m := o.GetMetadata()
	switch in := m.GetInitializers(); {
	case isImplicit(o):
		return "Implicit"
	case m.GetDeletionTimestamp() != nil:
	case in != nil:
		return "Initializing (" + strings.Join(InitializerNames(in), ", ") + ")"
	case m.GetProtection() != nil:
		return "Protected"
	default:
		return "Active"
	}
	if len(m.GetFinalizers()) == 0 {
		return "Terminating"
	}
	var by []string
	for _, f := range m.GetFinalizers() {
		by = append(by, finalizer(f))
	}
	return "Terminating (" + terminal.Short(by, terminal.Listed) + ")"
}

// DeletionBegan returns when the deletion of a terminating object began: deletionTimestamp without the
// grace period, which deletionTimestamp includes. If a DELETE has shortened the grace period to less
// than what had passed, it returns the time of that DELETE, at most 1 s earlier.
func DeletionBegan(m *coppicev1.ObjectMeta) time.Time {
	return m.GetDeletionTimestamp().AsTime().Add(-time.Duration(m.GetDeletionGracePeriodSeconds()) * time.Second)
}

// ProtectedBy says who protects an object, and why: "ana: production"; "" if it is not protected.
func ProtectedBy(p *coppicev1.Protection) string {
	var said []string
	if p.GetReason() != "" {
		said = append(said, p.GetActor()+": "+p.GetReason())
	}
	if len(p.GetPolicies()) > 0 {
		said = append(said, "policy "+strings.Join(p.GetPolicies(), ", "))
	}
	return strings.Join(said, "; ")
}

// Expiry says when an object expires: "expires in 5m", or "expired 10s ago"; "" if it does not.
func Expiry(m *coppicev1.ObjectMeta, now time.Time) string {
	if m.GetExpiresAt() == nil || m.GetDeletionTimestamp() != nil {
		return ""
	}
	if left := m.GetExpiresAt().AsTime().Sub(now); left > 0 {
		return "expires in " + terminal.Age(left)
	}
	return "expired " + terminal.Age(now.Sub(m.GetExpiresAt().AsTime())) + " ago"
}

// ownersOf names the controller of an object, or its only owner, or counts its
// owners.
func ownersOf(o *coppicev1.Object, ownerKey func(*coppicev1.OwnerReference) string) string {
	owners := o.GetMetadata().GetOwnerReferences()
	c := client.ControllerOf(o)
	switch {
	case len(owners) == 0:
		return "<none>"
	case len(owners) == 1:
		return ownerKey(owners[0])
	case c == nil:
		return terminal.Count(len(owners), "owner")
	}
	return fmt.Sprintf("%s +%d", ownerKey(c), len(owners)-1)
}

// InitializerNames returns the names of the initializers that an object waits for.
func InitializerNames(in *coppicev1.Initializers) []string {
	var names []string
	for _, i := range in.GetPending() {
		names = append(names, i.GetName())
	}
	return names
}

// Pairs returns a map as "name=value", in order.
func Pairs(m map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, name+"="+m[name])
	}
	return list
}

// PairsText is labels or annotations on one line: "app=web,tier=db".
func PairsText(of map[string]string) string {
	if len(of) == 0 {
		return "<none>"
	}
	return strings.Join(Pairs(of), ",")
}

// A namespace need not have a Namespace object. Such a namespace is called implicit
// here, and shown as an object that has only a name.

// ImplicitNamespace returns the object that stands for an implicit namespace.
func ImplicitNamespace(name string) *coppicev1.Object {
	return &coppicev1.Object{ApiVersion: "v1", Kind: "Namespace", Metadata: &coppicev1.ObjectMeta{Name: name}}
}

// isImplicit reports whether the object is from ImplicitNamespace: every stored object
// has a uid.
func isImplicit(o *coppicev1.Object) bool {
	return o.GetKind() == "Namespace" && o.GetMetadata().GetUid() == ""
}
