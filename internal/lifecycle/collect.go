package lifecycle

import (
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The collector's commands. Each judges again, at the state of the commit that
// acts: whoever proposed it may have looked at an older one. The answer is what
// to write, or nothing where the proposal no longer holds.

// Collect decides a processor's proposal to collect n.
func Collect(ctx *Context, n *Node) []Event {
	j := Judge(ctx.View, n, ctx.Now)
	policy := collectedBy(ctx, n)
	switch j.Verdict {
	case CollectForeground:
		policy = Foreground // A12.8; overrides the object's own orphan finalizer
	case CollectObject:
	default:
		return nil
	}
	return deletion(ctx.View, ctx.Now, n, ctx.Kinds().OfNode(n), request{
		policy: policy, version: n.Version(), reason: j.Reason, cause: j.Cause,
	})
}

// collectedBy is the policy by which the collector deletes n.
func collectedBy(ctx *Context, n *Node) string {
	switch {
	case ctx.Options().Propagation == Cascade:
		// Neither finalizer of its own stays (seed 000).
	case n.HasFinalizer(FinalizerOrphan):
		return Orphan // A12.9
	case n.HasFinalizer(FinalizerForeground):
		return Foreground
	}
	return Background
}

// Strip decides a processor's proposal to remove the references of n that do
// not hold it, while another does (A12.7). Unknown references stay.
func Strip(ctx *Context, n *Node) []Event {
	if j := Judge(ctx.View, n, ctx.Now); j.Verdict != StripReferences {
		return nil
	}
	event := Event{Type: OwnerReferencesRemoved, UID: n.UID, Reason: coppicev1.Reason_REASON_SOLID_OWNER_REMAINS}
	for i := range n.Owners {
		r := &n.Owners[i]
		if c := Classify(ctx.View, n, r, ctx.Now); c.Class == Dangling || c.Class == Waiting {
			event.References = append(event.References, *r)
			event.Cause = max(event.Cause, c.Cause)
		}
	}
	return []Event{event}
}

// OrphanFrom decides the orphan finalizer's request to part n from an owner
// that is being deleted with it (A15). Valid references go, also if n is itself
// terminating; a reference that never fitted is judged on its own.
//
// Until now the owner held n, so references that did not hold it were to be
// removed as well (A12.7). They go first: otherwise n would be collected for
// their sake or live, by who came first (S9).
func OrphanFrom(ctx *Context, owner, n *Node) []Event {
	if !owner.Orphaning() || !owner.Acknowledged() || ctx.Now < sessionEnd(ctx.View, owner) {
		return nil
	}
	event := Event{
		Type: OwnerReferencesRemoved, UID: n.UID,
		Reason: coppicev1.Reason_REASON_OWNER_ORPHANS, Cause: owner.DeletionRevision,
	}
	for i := range n.Owners {
		if r := &n.Owners[i]; r.UID == owner.UID && Fits(n, r, owner) {
			event.References = append(event.References, *r)
			break // the others that fit are the same by SameOwner
		}
	}
	if event.References == nil {
		return nil
	}
	return append(Strip(ctx, n), event)
}

// Finish decides that a built-in finalizer is done with n: the orphan
// finalizer when no dependent has a valid reference to n any more (A15), the
// foreground finalizer when no dependent delays it (A13, Delays), the contents
// finalizer when the last object has gone (A5.7). Invariant 5 is about the first
// two, which are not done while more dependents may come with the import that
// brought n (R2).
//
// kept are the dependents that an examination of all of them found to
// be KeptByUnknown; see finishable. Only the foreground finalizer needs them.
func Finish(ctx *Context, n *Node, finalizer string, kept []uid.UID) []Event {
	if !finishable(ctx.View, n, finalizer, kept, ctx.Now) || finalizer != FinalizerContents && ctx.Now < sessionEnd(ctx.View, n) {
		return nil
	}
	return []Event{finalized(n, finalizer)}
}

// finishable reports whether nothing but an open import session keeps a
// built-in finalizer on n.
//
// The counters answer for the foreground finalizer unless some dependents are
// not terminating and none blocks. Then they have to be examined. That is done
// outside of the commit, and the commit examines only those that were found to
// be kept: if they are as many as the counters say are not terminating, there is
// no other dependent that could delay n.
func finishable(v View, n *Node, finalizer string, kept []uid.UID, now Time) bool {
	switch {
	case !n.Terminating() || !n.HasFinalizer(finalizer):
		return false
	case finalizer == FinalizerContents:
		return AnyContent(v, n) == ""
	case !n.Acknowledged():
		return false
	case finalizer == FinalizerOrphan:
		return Dependents(v, n).All == 0
	case finalizer == FinalizerForeground:
		d := Dependents(v, n)
		return d.Blocking == 0 && (d.Pending() == 0 || allKept(v, n, d.Pending(), kept, now))
	}
	return false
}
