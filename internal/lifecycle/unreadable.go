package lifecycle

import (
	"fmt"

	"github.com/coppice-gc/coppice/client/api"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ErrUnreadable refuses a request that needs the body of n, which cannot be decoded (B8.1).
func ErrUnreadable(at Key, n *Node, err error) *Error {
	e := at.err(api.ErrInternalError, "%s is unreadable: its body cannot be decoded: %v; if 'coppice verify' reports that the state differs from the log, 'coppice rebuild' repairs it; "+
		"otherwise an operator can delete the object: 'coppice delete --ignore-read-errors'", at, err)
	e.UID = n.UID.String()
	e.Causes = []Cause{{Reason: api.CauseObjectUnreadable, Message: err.Error()}}
	return e
}

// ErrReadable refuses to delete n without its finalizers, because its body can be decoded (B8.2).
func ErrReadable(at Key, n *Node) *Error {
	e := errConflict(at, "it can be read; delete it as any other object, so that its finalizers are called")
	e.UID = n.UID.String()
	return e
}

// DeleteUnreadable decides the removal of an object whose body cannot be decoded, for a reason that
// the log keeps (B8.2). The object is removed at once, without its grace period, and none of its
// finalizers is called. It does not check whether the body can be decoded, here or in the log:
// services/graph/api/objects does.
func DeleteUnreadable(ctx *Context, at Key, reason string, want *coppicev1.Preconditions) (*Outcome, *Error) {
	if err := CheckReason(reason); err != nil {
		return nil, err
	}
	n, err := Find(ctx.View, at)
	if err != nil {
		return nil, err
	}
	if err := checkPreconditions(at, n, want); err != nil {
		return nil, err
	}
	switch {
	case n.Protected():
		return nil, errProtected(ctx.View, at, n) // B2.1
	case Governs(n):
		return nil, at.err(api.ErrForbidden, "%s configures the realm, and is never removed without its body; rebuild the state from the log", at)
	}
	if content := AnyContent(ctx.View, n); content != "" {
		return nil, errConflict(at, "it contains objects, such as %s; delete those first", content)
	}
	out := &Outcome{Code: 200, Object: Object{Node: n}, Events: []Event{deleted(n, coppicev1.Reason_REASON_REQUESTED, 0)}}
	out.Warnings = append(out.Warnings, fmt.Sprintf("%s is removed although its body cannot be read: what its spec described was not cleaned up", at))
	if len(n.Finalizers) > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("these finalizers of %s were not called: %q", at, n.Finalizers))
	}
	if n.Grace != nil || n.Ending() {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the agent of %s was not asked to end it, or not waited for", at))
	}
	if users := ctx.Users(n).All; users > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d objects use %s, and lose it", users, at))
	}
	return out, nil
}
