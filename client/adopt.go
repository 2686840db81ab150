package client

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
)

// Adopted is the result of Adopt.
type Adopted struct {
	// Adopted and Released are the names of the objects that changed their controller.
	Adopted, Released []string
}

// Adopt makes owner the controller of the objects that match a label selector and have no
// controller, and removes its reference from objects that no longer match. A
// controller calls it in each reconciliation. owners is the client for the owner's resource and
// namespace, with which Adopt reads the owner again: an owner that is being deleted does
// not adopt. Adopt skips objects that change during the call.
//
// An empty selector is refused, because it would adopt all objects of the namespace. A selector such
// as "!example.com/unmanaged" adopts those without a label.
func Adopt(ctx context.Context, owners ResourceClient, owner *Object, objects ResourceClient, selector string) (Adopted, error) {
	var done Adopted
	if selector == "" {
		return done, &Error{Reason: ErrBadRequest, Message: "adopt: the label selector is empty, which would select all objects: write a selector such as app=web"}
	}
	matching := map[string]bool{}
	var adopt, release []*Object
	for object, err := range objects.List(ctx, LabelSelector(selector)) {
		if err != nil {
			return done, err
		}
		matching[object.GetMetadata().GetUid()] = true
		if ControllerOf(object) == nil && object.GetMetadata().GetDeletionTimestamp() == nil {
			adopt = append(adopt, object)
		}
	}
	uid := owner.GetMetadata().GetUid()
	for object, err := range objects.List(ctx) {
		if err != nil {
			return done, err
		}
		if r := ControllerOf(object); r != nil && r.GetUid() == uid && !matching[object.GetMetadata().GetUid()] {
			release = append(release, object)
		}
	}
	if len(adopt) > 0 {
		now, err := owners.Get(ctx, owner.GetMetadata().GetName(), IncludeUninitialized(true))
		if err != nil && !errors.Is(err, ErrNotFound) {
			return done, err
		}
		if err != nil || now.GetMetadata().GetUid() != uid || now.GetMetadata().GetDeletionTimestamp() != nil {
			adopt = nil
		}
	}
	for _, object := range adopt {
		next := proto.CloneOf(object)
		if err := SetControllerReference(owner, next); err != nil {
			return done, err
		}
		if ok, err := tryUpdate(ctx, objects, next); err != nil {
			return done, err
		} else if ok {
			done.Adopted = append(done.Adopted, object.GetMetadata().GetName())
		}
	}
	for _, object := range release {
		next := proto.CloneOf(object)
		RemoveOwnerReference(uid, next)
		if ok, err := tryUpdate(ctx, objects, next); err != nil {
			return done, err
		} else if ok {
			done.Released = append(done.Released, object.GetMetadata().GetName())
		}
	}
	return done, nil
}

// tryUpdate updates an object unless it has changed or no longer exists.
func tryUpdate(ctx context.Context, objects ResourceClient, object *Object) (bool, error) {
	_, err := objects.Update(ctx, object)
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
