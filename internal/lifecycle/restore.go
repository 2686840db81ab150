package lifecycle

import (
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Restore decides the restoration of one object (B5.8). An object whose uid was never used is
// created, as by an import in the session, but it is neither terminating nor waits for
// initializers. An object that exists gets the owner references of o in place of its own, if o
// names its resourceVersion; without one, Restore fails with AlreadyExists.
// deletion is the revision of the event that removed the object or its references. It becomes
// the cause of the event.
func Restore(ctx *Context, at Key, session string, o *coppicev1.Object, deletion uint64) (*Outcome, *Error) {
	meta := o.GetMetadata()
	var causes []Cause
	if deletion == 0 {
		causes = append(causes, required("deletion", "the revision of the event that removed the object"))
	}
	at.Name = meta.GetName()
	u, err := uid.Parse(meta.GetUid())
	if err != nil {
		causes = append(causes, invalidValue("metadata.uid", meta.GetUid(), err.Error()))
	}
	if err := invalid(at, causes); err != nil {
		return nil, err
	}
	if was := ctx.Node(u); was != nil {
		return regain(ctx, at, was, o, deletion)
	}
	if meta.GetDeletionTimestamp() != nil || meta != nil && meta.DeletionGracePeriodSeconds != nil {
		causes = append(causes, forbidden("metadata.deletionTimestamp", "an object is restored as it was before its deletion"))
	}
	if meta.GetInitializers() != nil {
		causes = append(causes, forbidden("metadata.initializers", "they have acted before the deletion"))
	}
	if err := invalid(at, causes); err != nil {
		return nil, err
	}
	if revision, _ := ctx.Removed(u, Coordinates{}); revision != 0 {
		return nil, errConflict(at, "uid %s belonged to an object that was removed at revision %d; a restored object has a new uid (S6)", u, revision)
	}
	out, refused := Import(ctx, at, session, o)
	if refused != nil {
		return nil, refused
	}
	for i := range out.Events {
		if e := &out.Events[i]; e.UID == u {
			e.Reason, e.Cause = coppicev1.Reason_REASON_RESTORED, deletion
		}
	}
	return out, nil
}

// regain gives an object that exists the owner references of o, if it has not changed since o was
// read.
func regain(ctx *Context, at Key, was *Node, o *coppicev1.Object, deletion uint64) (*Outcome, *Error) {
	at, _, err := target(at, o)
	if err != nil {
		return nil, err
	}
	here := Coordinates{Group: at.Kind.Group, Kind: at.Kind.Kind, Name: at.Name, Namespace: at.Namespace}
	meta := o.GetMetadata()
	switch {
	case was.Coordinates() != here:
		return nil, errConflict(at, "uid %s belongs to %s", was.UID, KeyOf(ctx.View, was))
	case meta.GetResourceVersion() == 0:
		return nil, errAlreadyExists(at, was) // as another restoration created it meanwhile
	case was.Terminating():
		return nil, errConflict(at, "%s is being deleted; it gets no references back", at)
	}
	if err := checkPreconditions(at, was, &coppicev1.Preconditions{ResourceVersion: meta.GetResourceVersion()}); err != nil {
		return nil, err
	}
	owners, warnings := dedupOwners(meta.GetOwnerReferences())
	causes := validateOwners(owners)
	if Governs(was) && len(owners) > 0 {
		causes = append(causes, forbidden("metadata.ownerReferences", "kinds, realm settings and policies have no owners"))
	}
	if err := invalid(at, causes); err != nil {
		return nil, err
	}
	node := *was
	node.Owners = ownersOf(owners)
	body := ctx.Body(was)
	size := objectcodec.Size(Object{Node: &node, Body: body}.API())
	if err := checkSize(ctx, at, size); err != nil {
		return nil, err
	}
	out := &Outcome{Code: 200, Object: Object{Node: was, Body: body}, Warnings: warnings}
	if sameNode(was, &node) {
		return out, nil
	}
	event := Event{
		Type: ObjectUpdated, UID: was.UID, Reason: coppicev1.Reason_REASON_RESTORED, Cause: deletion, Object: Object{Node: &node},
	}
	body = withStatus(body, body.GetStatus())
	if unrecorded := keepApplied(ctx, body, size); unrecorded != nil {
		event.Object.Body, out.Object.Body = body, body
		out.Warnings = append(out.Warnings, unrecorded...)
	}
	out.Events = []Event{event}
	return out, nil
}
