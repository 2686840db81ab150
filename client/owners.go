package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// OwnerReferenceOf is a reference to owner. controller marks the one owner
// that manages the object; blocking has a foreground deletion of the owner wait
// for the object.
func OwnerReferenceOf(owner *coppicev1.Object, controller, blocking bool) *coppicev1.OwnerReference {
	return &coppicev1.OwnerReference{
		ApiVersion:         owner.GetApiVersion(),
		Kind:               owner.GetKind(),
		Name:               owner.GetMetadata().GetName(),
		Uid:                owner.GetMetadata().GetUid(),
		Controller:         &controller,
		BlockOwnerDeletion: &blocking,
	}
}

// ErrAlreadyControlled is returned where an object has another controller.
var ErrAlreadyControlled = errors.New("the object has another controller")

// ErrScope is returned for an owner that cannot own the object: one in another
// namespace, or a namespaced one of a cluster-scoped object. The collector
// would take such a reference for void.
var ErrScope = errors.New("the owner must be in the object's namespace, or cluster-scoped")

// SetController makes owner the controller of an object: a reference with
// controller and blockOwnerDeletion. It changes the object in memory; Create
// or Update writes it.
func SetController(object, owner *coppicev1.Object) error {
	for _, r := range object.GetMetadata().GetOwnerReferences() {
		if r.GetController() && r.GetUid() != owner.GetMetadata().GetUid() {
			return fmt.Errorf("%w: %s %q", ErrAlreadyControlled, r.GetKind(), r.GetName())
		}
	}
	return SetOwner(object, owner, true, true)
}

// SetOwner adds a reference to owner, or replaces the one that is there. It
// changes the object in memory.
func SetOwner(object, owner *coppicev1.Object, controller, blocking bool) error {
	if ns := owner.GetMetadata().GetNamespace(); ns != "" && ns != object.GetMetadata().GetNamespace() {
		return fmt.Errorf("%w: the owner is in namespace %q, the object in %q", ErrScope, ns, object.GetMetadata().GetNamespace())
	}
	if owner.GetMetadata().GetUid() == "" {
		return errors.New("the owner has no uid: create it first, and refer to what was created")
	}
	RemoveOwner(object, owner.GetMetadata().GetUid())
	if object.Metadata == nil {
		object.Metadata = &coppicev1.ObjectMeta{}
	}
	object.Metadata.OwnerReferences = append(object.Metadata.OwnerReferences, OwnerReferenceOf(owner, controller, blocking))
	return nil
}

// RemoveOwner removes all references to a uid, and reports whether there were
// any. It changes the object in memory.
func RemoveOwner(object *coppicev1.Object, uid string) bool {
	m := object.GetMetadata()
	if m == nil {
		return false
	}
	n := len(m.OwnerReferences)
	m.OwnerReferences = slices.DeleteFunc(m.OwnerReferences, func(r *coppicev1.OwnerReference) bool { return r.GetUid() == uid })
	return len(m.OwnerReferences) < n
}

// ControllerOf is the reference to an object's controller, nil if it has none.
func ControllerOf(object *coppicev1.Object) *coppicev1.OwnerReference {
	for _, r := range object.GetMetadata().GetOwnerReferences() {
		if r.GetController() {
			return r
		}
	}
	return nil
}

// Adopted is what Adopt did.
type Adopted struct {
	// Adopted and Released are the names of the objects that were.
	Adopted, Released []string
}

// Adopt makes owner the controller of the objects that match a label selector
// and have none, and releases those that it controls and that do not match any
// more: what a controller does on each round. An owner that is being deleted
// adopts nothing; it is read again before. Objects that change meanwhile are
// left for the next round.
func (o *Objects) Adopt(ctx context.Context, owner *coppicev1.Object, owners Resource, selector string) (Adopted, error) {
	var done Adopted
	matching := map[string]bool{}
	var adopt, release []*coppicev1.Object
	for object, err := range o.List(ctx, ListOptions{LabelSelector: selector}) {
		if err != nil {
			return done, err
		}
		matching[object.GetMetadata().GetUid()] = true
		if ControllerOf(object) == nil && object.GetMetadata().GetDeletionTimestamp() == nil {
			adopt = append(adopt, object)
		}
	}
	for object, err := range o.List(ctx, ListOptions{}) {
		if err != nil {
			return done, err
		}
		if r := ControllerOf(object); r != nil && r.GetUid() == owner.GetMetadata().GetUid() && !matching[object.GetMetadata().GetUid()] {
			release = append(release, object)
		}
	}
	if len(adopt) > 0 {
		now, err := o.c.Objects(owners, owner.GetMetadata().GetNamespace()).IncludeUninitialized().Get(ctx, owner.GetMetadata().GetName())
		if err != nil && !errors.Is(err, lifecycle.ReasonNotFound) {
			return done, err
		}
		if err != nil || now.GetMetadata().GetUid() != owner.GetMetadata().GetUid() || now.GetMetadata().GetDeletionTimestamp() != nil {
			adopt = nil
		}
	}
	for _, object := range adopt {
		next := proto.Clone(object).(*coppicev1.Object)
		if err := SetController(next, owner); err != nil {
			return done, err
		}
		if ok, err := o.tryUpdate(ctx, next); err != nil {
			return done, err
		} else if ok {
			done.Adopted = append(done.Adopted, object.GetMetadata().GetName())
		}
	}
	for _, object := range release {
		next := proto.Clone(object).(*coppicev1.Object)
		RemoveOwner(next, owner.GetMetadata().GetUid())
		if ok, err := o.tryUpdate(ctx, next); err != nil {
			return done, err
		} else if ok {
			done.Released = append(done.Released, object.GetMetadata().GetName())
		}
	}
	return done, nil
}

// tryUpdate updates an object unless it has changed or is gone.
func (o *Objects) tryUpdate(ctx context.Context, object *coppicev1.Object) (bool, error) {
	_, err := o.Update(ctx, object, WriteOptions{})
	if errors.Is(err, Conflict) || errors.Is(err, NotFound) {
		return false, nil
	}
	return err == nil, err
}
