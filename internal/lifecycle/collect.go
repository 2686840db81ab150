package lifecycle

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The collector's commands. Each evaluates the object again, at the state of the commit
// that acts, because the proposal may be based on an older state. It returns no events if
// the proposal does not apply any more.

// Collect decides a processor's proposal to collect n.
func Collect(ctx *Context, n *Node) []Event {
	j := Evaluate(ctx.View, n, ctx.Now)
	policy := collectedBy(ctx, n)
	switch j.Decision {
	case CollectForeground:
		policy = Foreground // A12.8; overrides the object's own orphan finalizer
	case CollectObject:
	default:
		return nil
	}
	return braked(ctx, deletion(ctx.View, ctx.Now, n, ctx.Kinds().OfNode(n), request{
		policy: policy, version: n.Version(), reason: j.Reason, cause: j.Cause,
	}))
}

// collectedBy returns the policy with which the collector deletes n.
func collectedBy(ctx *Context, n *Node) string {
	switch {
	case ctx.Settings().Propagation == Cascade:
		// Neither finalizer of its own stays (seed 000).
	case n.HasFinalizer(FinalizerOrphan):
		return Orphan // A12.9
	case n.HasFinalizer(FinalizerForeground):
		return Foreground
	}
	return Background
}

// Strip decides a processor's proposal to remove the dangling and waiting references of n,
// while a solid owner keeps it (A12.7). Unknown references stay.
func Strip(ctx *Context, n *Node) []Event {
	if j := Evaluate(ctx.View, n, ctx.Now); j.Decision != StripReferences {
		return nil
	}
	event := Event{Type: OwnerReferencesRemoved, UID: n.UID, Reason: coppicev1.Reason_REASON_SOLID_OWNER_REMAINS}
	of := NewClassifier(ctx.View, n, ctx.Now)
	for i := range n.Owners {
		r := &n.Owners[i]
		if c := of.Classify(r); c.Class == Dangling || c.Class == Waiting {
			event.References = append(event.References, *r)
			event.Cause = max(event.Cause, c.Cause)
		}
	}
	return []Event{event}
}

// OrphanFrom decides the orphan finalizer's request to remove the references of n to an
// owner that is being deleted (A15). It removes valid references, and those that name a group from
// which the owner has moved, also if n itself is terminating. Others are evaluated on their own.
//
// Until now the owner kept n, so that dangling and waiting references were to be removed
// (A12.7). They are removed first: otherwise it would depend on the order of work whether
// n is collected because of them (S9).
func OrphanFrom(ctx *Context, owner, n *Node) []Event {
	if !owner.Orphaning() || !owner.Acknowledged() || ctx.Now < sessionEnd(ctx.View, owner) {
		return nil
	}
	event := Event{
		Type: OwnerReferencesRemoved, UID: n.UID,
		Reason: coppicev1.Reason_REASON_OWNER_ORPHANS, Cause: owner.DeletionRevision,
	}
	for i := range n.Owners {
		if r := &n.Owners[i]; orphans(ctx.View, n, r, owner) && !slices.ContainsFunc(event.References, func(o OwnerReference) bool { return o.SameOwner(r) }) {
			event.References = append(event.References, *r)
		}
	}
	if event.References == nil {
		return nil
	}
	return append(Strip(ctx, n), event)
}

// Finish removes a built-in finalizer that is done from n: the orphan finalizer when no
// dependent has a reference that it removes (A15), the foreground finalizer when no dependent
// delays n (A13, DelayOf), the in-use finalizer when no object uses n (B3.1), the contents
// finalizer when no contents are left (A5.7). If n waits for users and keeps dependents that are not
// terminating, Finish adds the foreground finalizer instead (B3.2). They are not done while the import session of n may
// still add dependents, users or contents (R2, B3.8).
//
// kept are the dependents for which an examination of all dependents has found
// KeptByUnknown; see finishable. Only the foreground finalizer needs them.
func Finish(ctx *Context, n *Node, finalizer string, kept []uid.UID) []Event {
	if !finishable(ctx.View, n, finalizer, kept, ctx.Now) || ctx.Now < sessionEnd(ctx.View, n) {
		return nil
	}
	if finalizer == FinalizerInUse && keepsUsers(ctx.View, n) {
		return []Event{foregroundForUsers(n)}
	}
	return []Event{finalized(n, finalizer)}
}

// finishable reports whether a built-in finalizer of n is done, apart from an open import
// session. The in-use finalizer also has work to do for an object that keeps its own users.
//
// For the foreground finalizer the counters suffice, unless some dependents are not
// terminating and none blocks. Then the dependents must be examined. That is done outside
// of the commit; the commit examines only the dependents that were found to be kept. If
// their number equals the counter of dependents that are not terminating, no other
// dependent can delay n. While n has users, dependents that are kept delay it as well: n
// would keep them afterwards, and one of them may use n (B3.2).
func finishable(v View, n *Node, finalizer string, kept []uid.UID, now Time) bool {
	switch {
	case !n.Terminating() || !n.HasFinalizer(finalizer):
		return false
	case finalizer == FinalizerContents:
		return AnyContent(v, n) == ""
	case finalizer == FinalizerInUse:
		return v.Users(n).All == 0 || keepsUsers(v, n)
	case !n.Acknowledged():
		return false
	case finalizer == FinalizerOrphan:
		any, _ := Orphanable(v, n)
		return !any
	case finalizer == FinalizerForeground:
		d := Dependents(v, n)
		return d.Blocking == 0 && (d.Pending() == 0 || !waitsForUsers(v, n) && allKept(v, n, d.Pending(), kept, now))
	}
	return false
}
