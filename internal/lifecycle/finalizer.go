package lifecycle

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/kept"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// CheckFinalizer refuses what cannot be the name of a finalizer.
func CheckFinalizer(name string) *Error {
	if why := finalizerName(name); why != "" {
		return ErrBadRequest("%q is not the name of a finalizer: %s", name, why)
	}
	return nil
}

// RemoveFinalizer decides the removal of one finalizer from an object. Removing the last
// finalizer of a terminating object removes the object (A2.10). Removing a finalizer that
// the object does not have is no error (A2.12).
func RemoveFinalizer(ctx *Context, at Key, finalizer string, want *coppicev1.Preconditions) (*Outcome, *Error) {
	n, err := Find(ctx.View, at)
	if err != nil {
		return nil, err
	}
	if err := checkPreconditions(at, n, want); err != nil {
		return nil, err
	}
	if err := checkContentsGone(ctx.View, at, n, finalizer); err != nil {
		return nil, err
	}
	if err := checkUnused(ctx.View, at, n, finalizer); err != nil {
		return nil, err
	}
	if err := checkUncovered(at, n, finalizer); err != nil {
		return nil, err
	}
	out := &Outcome{Code: 200, Object: Object{Node: n, Body: ctx.Body(n)}}
	if n.HasFinalizer(finalizer) {
		out.Events = []Event{finalized(n, finalizer)}
	}
	return out, nil
}

// finalized returns the event of the removal of a finalizer, or of the object if nothing
// else blocks its deletion. All occurrences are removed (A1.11 lets it occur twice).
func finalized(n *Node, finalizer string) Event {
	if n.Terminating() && n.graceOver() && len(withoutFinalizer(n.Finalizers, finalizer)) == 0 {
		return deleted(n, coppicev1.Reason_REASON_FINALIZED, n.DeletionRevision)
	}
	event := Event{
		Type: FinalizerRemoved, UID: n.UID, Reason: coppicev1.Reason_REASON_REQUESTED,
		Finalizers: []string{finalizer},
	}
	if n.Terminating() {
		event.Reason, event.Cause = coppicev1.Reason_REASON_FINALIZED, n.DeletionRevision
	}
	return event
}

// keepsTooMany explains a refusal of the finalizers that a client sends, if the object would keep others.
func keepsTooMany(keeps []string, list []string) []Cause {
	if len(keeps) == 0 || len(list) <= maxListed {
		return nil
	}
	names, _ := kept.Finalizers(keeps)
	return []Cause{{
		Reason: "FieldValueTooMany", Field: "metadata.finalizers",
		Message: fmt.Sprintf("the object keeps %d external finalizers that are left out: remove them with the verb removefinalizer first", len(names)),
	}}
}

// keepExternal returns the object that a client sends for one that exists, with the external
// finalizers that it leaves out, and the warning of these, unless ctx.RemovesFinalizers: in Kubernetes an update removes them. A finalizer that is kept stands
// where it stood among those that precede it in the stored object. A client that sends the stored
// list without one changes nothing.
func keepExternal(ctx *Context, was *Node, o *coppicev1.Object) (*coppicev1.Object, []string) {
	if ctx.RemovesFinalizers || was == nil || len(was.Finalizers) == 0 {
		return o, nil
	}
	sent := o.GetMetadata().GetFinalizers()
	if slices.Equal(sent, was.Finalizers) || len(sent) > maxListed { // most; or the update is refused
		return o, nil
	}
	has := oneOf(sent)
	list, at := slices.Clone(sent), 0
	var left []string
	for _, f := range was.Finalizers {
		switch {
		case has(f):
			if i := slices.Index(list[at:], f); i >= 0 {
				at += i + 1
			}
		case !IsBuiltinFinalizer(f):
			list = slices.Insert(list, at, f)
			at++
			if !slices.Contains(left, f) {
				left = append(left, f)
			}
		}
	}
	if left == nil {
		return o, nil
	}
	meta := proto.CloneOf(o.GetMetadata()) // the request may be decided again
	if meta == nil {
		meta = &coppicev1.ObjectMeta{}
	}
	meta.Finalizers = list
	o = &coppicev1.Object{ApiVersion: o.GetApiVersion(), Kind: o.GetKind(), Metadata: meta, Spec: o.GetSpec(), Status: o.GetStatus(), Extra: o.GetExtra()}
	return o, []string{kept.Warning(left)}
}
