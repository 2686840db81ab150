package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/client/api"
)

var (
	// ErrAlreadyControlled is returned by SetControllerReference if the object has
	// another controller.
	ErrAlreadyControlled = errors.New("the object has another controller")
	// ErrOwnerScope is returned for an owner that cannot own the object: one in another
	// namespace, or a namespaced owner of a cluster-scoped object. The collector
	// would treat such a reference as dangling.
	ErrOwnerScope = errors.New("an owner must be cluster-scoped or in the object's namespace")
	// ErrUseScope is returned by AddUse for a used object in another namespace; AddUseAcross adds such a
	// use.
	ErrUseScope = errors.New("a used object must be cluster-scoped or in the object's namespace")
)

// OwnerReferenceOption is an option of NewOwnerReference, SetOwnerReference and
// SetControllerReference.
type OwnerReferenceOption func(*OwnerReference)

// WithBlockOwnerDeletion sets whether a foreground deletion of the owner waits for the
// object. The default is true for SetControllerReference and false otherwise.
func WithBlockOwnerDeletion(block bool) OwnerReferenceOption {
	return func(r *OwnerReference) { r.BlockOwnerDeletion = &block }
}

// WithController sets whether the owner is the object's controller. The default is
// true for SetControllerReference and false otherwise.
func WithController(controller bool) OwnerReferenceOption {
	return func(r *OwnerReference) { r.Controller = &controller }
}

// NewOwnerReference returns a reference to owner, which must have a uid: the object that
// Create or Get returned.
func NewOwnerReference(owner *Object, opts ...OwnerReferenceOption) *OwnerReference {
	r := &OwnerReference{
		ApiVersion: owner.GetApiVersion(),
		Kind:       owner.GetKind(),
		Name:       owner.GetMetadata().GetName(),
		Uid:        owner.GetMetadata().GetUid(),
	}
	for _, o := range slices.Concat([]OwnerReferenceOption{WithController(false), WithBlockOwnerDeletion(false)}, opts) {
		o(r)
	}
	return r
}

// SetControllerReference makes owner the controller of an object, and has a foreground
// deletion of the owner wait for the object. It changes the object in memory only. It
// fails with ErrAlreadyControlled or ErrOwnerScope, or if owner has no uid.
func SetControllerReference(owner, object *Object, opts ...OwnerReferenceOption) error {
	for _, r := range object.GetMetadata().GetOwnerReferences() {
		if r.GetController() && r.GetUid() != owner.GetMetadata().GetUid() {
			return fmt.Errorf("set the controller of %q: %w: %s %q", object.GetMetadata().GetName(), ErrAlreadyControlled, r.GetKind(), r.GetName())
		}
	}
	defaults := []OwnerReferenceOption{WithController(true), WithBlockOwnerDeletion(true)}
	return SetOwnerReference(owner, object, slices.Concat(defaults, opts)...)
}

// SetOwnerReference adds a reference to owner to an object, or replaces the existing one.
// It changes the object in memory only. It fails with ErrOwnerScope, or if owner has no uid.
func SetOwnerReference(owner, object *Object, opts ...OwnerReferenceOption) error {
	name := object.GetMetadata().GetName()
	if ns := owner.GetMetadata().GetNamespace(); ns != "" && ns != object.GetMetadata().GetNamespace() {
		return fmt.Errorf("set an owner of %q: %w: the owner is in namespace %q, the object in %q", name, ErrOwnerScope, ns, object.GetMetadata().GetNamespace())
	}
	if owner.GetMetadata().GetUid() == "" {
		return fmt.Errorf("set an owner of %q: the owner has no uid; use the object that Create returned", name)
	}
	RemoveOwnerReference(owner.GetMetadata().GetUid(), object)
	if object.Metadata == nil {
		object.Metadata = &ObjectMeta{}
	}
	object.Metadata.OwnerReferences = append(object.Metadata.OwnerReferences, NewOwnerReference(owner, opts...))
	return nil
}

// RemoveOwnerReference removes all references to the owner with a uid from an object, and
// reports whether there were any. It changes the object in memory only.
func RemoveOwnerReference(uid string, object *Object) bool {
	m := object.GetMetadata()
	if m == nil {
		return false
	}
	n := len(m.OwnerReferences)
	m.OwnerReferences = slices.DeleteFunc(m.OwnerReferences, func(r *OwnerReference) bool { return r.GetUid() == uid })
	return len(m.OwnerReferences) < n
}

// NewUse returns a use of an object, to be added to ObjectMeta.Uses of the object that uses it. The user is removed
// before the used object. The used object is in the user's namespace or cluster-scoped; AddUseAcross is for other
// namespaces. If used has no uid, it need not exist yet: the use is bound to the first object with its name.
func NewUse(used *Object) *Use {
	m := used.GetMetadata()
	return &Use{Group: api.GroupOf(used.GetApiVersion()), Kind: used.GetKind(), Namespace: m.GetNamespace(), Name: m.GetName(), Uid: m.GetUid()}
}

// AddUse makes an object use another one, used. It changes the object in memory only. A use of an earlier object with the
// same name is replaced. It fails with ErrUseScope.
func AddUse(used, object *Object) error {
	ns := used.GetMetadata().GetNamespace()
	if ns != "" && ns != object.GetMetadata().GetNamespace() {
		return fmt.Errorf("add a use to %q: %w: %q is in namespace %q, the object in %q",
			object.GetMetadata().GetName(), ErrUseScope, used.GetMetadata().GetName(), ns, object.GetMetadata().GetNamespace())
	}
	AddUseAcross(used, object)
	return nil
}

// AddUseAcross is AddUse for a used object in any namespace. Only ApplyAcross, imports and restorations write a
// new use of an object in another namespace, and only if the realm settings share that namespace.
func AddUseAcross(used, object *Object) {
	u := NewUse(used)
	if object.Metadata == nil {
		object.Metadata = &ObjectMeta{}
	}
	own := object.GetMetadata().GetNamespace()
	same := func(v *Use) bool {
		return v.GetGroup() == u.GetGroup() && v.GetKind() == u.GetKind() && v.GetName() == u.GetName() &&
			(u.GetNamespace() == "" || cmp.Or(v.GetNamespace(), own) == u.GetNamespace())
	}
	object.Metadata.Uses = append(slices.DeleteFunc(object.Metadata.Uses, same), u)
}

// ControllerOf returns the reference to an object's controller, nil if it has none.
func ControllerOf(object *Object) *OwnerReference {
	for _, r := range object.GetMetadata().GetOwnerReferences() {
		if r.GetController() {
			return r
		}
	}
	return nil
}
