package lifecycle

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Blocks reports whether the dependent n blocks the foreground deletion of owner: one of
// its references is valid and has blockOwnerDeletion set.
func Blocks(n, owner *Node) bool {
	return owner.Waiting() && slices.ContainsFunc(n.Owners, func(r OwnerReference) bool { return wouldBlock(n, &r, owner) })
}

// BlocksBy reports whether n blocks the foreground deletion of owner by its reference r.
func BlocksBy(n *Node, r *OwnerReference, owner *Node) bool {
	return owner.Waiting() && wouldBlock(n, r, owner)
}

// wouldBlock reports whether n would block the foreground deletion of owner by its reference r.
func wouldBlock(n *Node, r *OwnerReference, owner *Node) bool {
	return r.UID == owner.UID && r.Blocking == True && Fits(n, r, owner)
}

// Unblock breaks a cycle of objects that wait for each other: each blocks the next, and
// the last one the first (A14). If an object uses the next, the first that does loses this
// use (B3.9). Otherwise the first stops blocking the next. Nothing else changes: owners outside
// of the cycle still wait, and other cycles are broken one at a time (X08, L4).
func Unblock(v View, cycle []*Node) []Event {
	if i := Released(v, cycle); i >= 0 {
		return release(cycle[i], cycle[(i+1)%len(cycle)])
	}
	for i, n := range cycle {
		if !n.Waiting() || !Blocks(n, cycle[(i+1)%len(cycle)]) {
			return nil // it is no such cycle any more
		}
	}
	n, owner := *cycle[0], cycle[1%len(cycle)]
	n.Owners = slices.Clone(n.Owners)
	for i := range n.Owners {
		if r := &n.Owners[i]; wouldBlock(&n, r, owner) {
			r.Blocking = False
		}
	}
	return []Event{{
		Type: ObjectUpdated, UID: n.UID, Reason: coppicev1.Reason_REASON_CYCLE, Cause: n.DeletionRevision, Object: Object{Node: &n},
	}}
}

// Unreachable reports whether objects own each other and nothing else keeps any of them:
// each has an owner among them, all other references are dangling or waiting, none is
// being deleted, and none is protected: a protected object keeps what it owns (A14, L5, B2.9).
func Unreachable(v View, members []*Node, now Time) bool {
	among := make(map[uid.UID]*Node, len(members))
	for _, n := range members {
		among[n.UID] = n
	}
	for _, n := range members {
		owned, of := false, NewClassifier(v, n, now)
		for i := range n.Owners {
			r := &n.Owners[i]
			if owner := among[r.UID]; owner != nil && Fits(n, r, owner) {
				owned = true
			} else if class := of.Classify(r).Class; class == Solid || class == Unknown {
				return false
			}
		}
		if !owned || n.Terminating() || n.Protected() { // B2.9
			return false
		}
	}
	return true
}

// CollectUnreachable deletes the objects of an unreachable cycle, as if each had lost its
// owners, if the realm settings say so.
func CollectUnreachable(ctx *Context, members []*Node) []Event {
	if ctx.Settings().UnreachableCycles != CollectCycles || !Unreachable(ctx.View, members, ctx.Now) {
		return nil
	}
	var events []Event
	for _, n := range members {
		kind := ctx.Kinds().OfNode(n)
		events = append(events, deletion(ctx.View, ctx.Now, n, kind, request{
			policy: collectedBy(ctx, n), version: n.Version(), reason: coppicev1.Reason_REASON_UNREACHABLE,
		})...)
	}
	return braked(ctx, events)
}
