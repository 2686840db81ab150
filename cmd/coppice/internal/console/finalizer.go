package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// maxReason is the length of a reason for the log, in bytes.
const maxReason = 1024

// removeFinalizer removes a finalizer from an object in place of its program.
func (r *realm) removeFinalizer(ctx context.Context, q *http.Request) (any, error) {
	var in view.RemoveFinalizer
	if err := readBody(q, "the removal of a finalizer", &in); err != nil {
		return nil, err
	}
	in.Reason = strings.TrimSpace(in.Reason)
	switch err := lifecycle.CheckFinalizer(in.Finalizer); {
	case err != nil:
		return nil, badRequest("%s", err.Message)
	case in.Reason == "" || len(in.Reason) > maxReason:
		return nil, badRequest("a reason of at most %d bytes is required: the log records why a finalizer was removed by hand", maxReason)
	case in.Object.UID == "":
		return nil, badRequest("the uid of the object is required")
	case in.Call != 0 && !in.Force:
		return nil, badRequest("a call goes with the removal by force")
	}
	k, namespace, err := r.kindIn(ctx, in.Object.Resource, in.Object.Namespace)
	if err != nil {
		return nil, err
	}
	name, objects := in.Object.Name, r.client.Resource(client.ResourceOf(k), namespace)
	// The request succeeds for a finalizer that is not there, so that controllers can repeat it. A person learns that.
	o, err := objects.Get(ctx, name, client.IncludeUninitialized(true))
	if err != nil {
		return nil, err
	}
	key := client.ResourceOf(k).String() + "/" + name
	at := view.Ref{Resource: client.ResourceOf(k).String(), Namespace: namespace, Name: name, UID: o.GetMetadata().GetUid()}
	switch has := o.GetMetadata().GetFinalizers(); {
	case at.UID != in.Object.UID:
		return nil, anotherUID(at, in.Object.UID)
	case !slices.Contains(has, in.Finalizer):
		return nil, &client.Error{Reason: client.ErrConflict, Message: key + " has no finalizer " + in.Finalizer + " any more; load the page again"}
	}
	var reply client.Reply
	if in.Force {
		o, err = objects.ForceFinalizer(ctx, name, in.Finalizer, in.Reason, client.IfUID(at.UID), client.IfCall(in.Call), client.ReplyInto(&reply))
		if errors.Is(err, client.ErrConflict) {
			return nil, r.withCall(ctx, err, &client.CallOf{Resource: at.Resource, Uid: at.UID, Finalizer: in.Finalizer})
		}
	} else {
		o, err = objects.RemoveFinalizer(ctx, name, in.Finalizer, client.Note(in.Reason), client.IfUID(at.UID), client.ReplyInto(&reply))
	}
	if err != nil {
		return nil, err
	}
	says := "The finalizer " + in.Finalizer + " was removed from " + key
	// The reply shows an object that is gone as it last was.
	m := o.GetMetadata()
	left := slices.DeleteFunc(slices.Clone(m.GetFinalizers()), func(f string) bool { return f == in.Finalizer })
	if m.GetDeletionTimestamp() != nil && m.GetDeletionGracePeriodSeconds() == 0 && len(left) == 0 {
		says += "; the object is gone"
	}
	return view.Done{Says: says + ".", Warnings: listed(reply.Warnings)}, nil
}

// withCall adds to a refusal the call that a program works on, if there is one: the page can name it to remove the
// finalizer nevertheless.
func (r *realm) withCall(ctx context.Context, refusal error, of *client.CallOf) error {
	f := *failureOf(refusal)
	reply, err := r.client.Operations().Consumers(ctx, client.IncludeCalls{of})
	if err == nil && len(reply.GetCalls()) == 1 && reply.GetCalls()[0].GetDelivered() {
		f.Call = reply.GetCalls()[0].GetCall()
	}
	return &f
}
