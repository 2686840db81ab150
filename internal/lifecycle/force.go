package lifecycle

import (
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"

	"github.com/coppice-gc/coppice/client/api"
)

// ForceFinalizer decides the removal of an external finalizer by an operator, in place of its
// controller. The event has the reason FORCED. Unlike RemoveFinalizer it refuses a
// finalizer that the object does not have. It does not check whether the controller works on
// the call for the object: services/graph/api/objects does.
func ForceFinalizer(ctx *Context, at Key, finalizer, reason string, want *coppicev1.Preconditions) (*Outcome, *Error) {
	if err := CheckReason(reason); err != nil {
		return nil, err
	}
	if err := CheckFinalizer(finalizer); err != nil {
		return nil, err
	}
	if IsBuiltinFinalizer(finalizer) {
		return nil, at.err(api.ErrBadRequest, "%s: finalizer %s is built in, and is removed when its work is done; only external finalizers are removed by force", at, finalizer)
	}
	n, err := Find(ctx.View, at)
	if err != nil {
		return nil, err
	}
	if err := checkPreconditions(at, n, want); err != nil {
		return nil, err
	}
	if !n.HasFinalizer(finalizer) {
		return nil, errConflict(at, "it has no finalizer %s; it has %q", finalizer, n.Finalizers)
	}
	out := unchanged(ctx, n)
	event := finalized(n, finalizer)
	event.Reason = coppicev1.Reason_REASON_FORCED
	out.Events = []Event{event}
	return out, nil
}
