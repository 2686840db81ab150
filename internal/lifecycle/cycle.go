package lifecycle

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Holds reports whether the dependent n holds up the deletion of owner in the
// foreground: one of its references says so, and is true.
func Holds(n, owner *Node) bool {
	return owner.Waiting() && slices.ContainsFunc(n.Owners, func(r OwnerReference) bool { return holds(n, &r, owner) })
}

// BlocksBy reports whether the reference r of n is one by which Holds is true.
func BlocksBy(n *Node, r *OwnerReference, owner *Node) bool {
	return owner.Waiting() && holds(n, r, owner)
}

func holds(n *Node, r *OwnerReference, owner *Node) bool {
	return r.UID == owner.UID && r.Blocking == True && Fits(n, r, owner)
}

// Unblock decides that objects wait for each other in a circle: each holds up
// the next, and the last one the first (A14). The first stops to hold up the
// next. Nothing else changes: an owner outside of the circle waits on, and other
// circles are broken one at a time (X08, L4).
func Unblock(circle []*Node) []Event {
	for i, n := range circle {
		if !n.Waiting() || !Holds(n, circle[(i+1)%len(circle)]) {
			return nil // somebody was faster
		}
	}
	n, owner := *circle[0], circle[1%len(circle)]
	n.Owners = slices.Clone(n.Owners)
	for i := range n.Owners {
		if r := &n.Owners[i]; holds(&n, r, owner) {
			r.Blocking = False
		}
	}
	return []Event{{
		Type: ObjectUpdated, UID: n.UID, Reason: coppicev1.Reason_REASON_CYCLE, Cause: n.DeletionRevision, Object: Object{Node: &n},
	}}
}

// Unreachable reports whether objects own each other and nothing outside of
// them owns any: each has an owner among them, and no reference of theirs means
// anything else that holds it, or may come to (A14, L5). None is being deleted.
func Unreachable(v View, members []*Node, now Time) bool {
	among := make(map[uid.UID]*Node, len(members))
	for _, n := range members {
		among[n.UID] = n
	}
	for _, n := range members {
		owned := false
		for i := range n.Owners {
			r := &n.Owners[i]
			if owner := among[r.UID]; owner != nil && Fits(n, r, owner) {
				owned = true
			} else if class := Classify(v, n, r, now).Class; class == Solid || class == Unknown {
				return false
			}
		}
		if !owned || n.Terminating() {
			return false
		}
	}
	return true
}

// CollectUnreachable decides that the objects of an unreachable cycle are
// deleted, if the realm wants it: as if each had lost its owners.
func CollectUnreachable(ctx *Context, members []*Node) []Event {
	if ctx.Options().UnreachableCycles != CollectCycles || !Unreachable(ctx.View, members, ctx.Now) {
		return nil
	}
	var events []Event
	for _, n := range members {
		kind := ctx.Kinds().OfNode(n)
		events = append(events, deletion(ctx.View, ctx.Now, n, kind, request{
			policy: collectedBy(ctx, n), version: n.Version(), reason: coppicev1.Reason_REASON_UNREACHABLE,
		})...)
	}
	return events
}
