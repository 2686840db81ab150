package lifecycle

import (
	"fmt"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Class is what an owner reference means for the object that has it.
type Class = coppicev1.OwnerClass

// The classes. Only Dangling and Waiting let an object be collected; Unknown
// is not absent (S2).
const (
	Solid    = coppicev1.OwnerClass_OWNER_CLASS_SOLID
	Waiting  = coppicev1.OwnerClass_OWNER_CLASS_WAITING
	Dangling = coppicev1.OwnerClass_OWNER_CLASS_DANGLING
	Unknown  = coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN
)

// Classification is the class of one owner reference.
type Classification struct {
	Class Class
	// Cause is the revision that made it so, where one did: the owner's
	// removal, or its mark for deletion.
	Cause uint64
	// Until is when an unknown owner counts as absent if it does not turn
	// up; zero if time alone does not tell.
	Until Time

	why why
}

type why uint8

const (
	_ why = iota
	whySolid
	whyWaiting
	whyRemoved
	whyKindUnknown
	whyVersionUnknown
	whyScope
	whyMismatch
	whyGrace
	whyNeverSeen
)

// Why explains the classification of reference r of the object n.
func (c Classification) Why(v View, n *Node, r *OwnerReference) string {
	switch c.why {
	case whySolid:
		return "the owner exists"
	case whyWaiting:
		return "the owner is being deleted in the foreground and waits for its dependents"
	case whyRemoved:
		return fmt.Sprintf("the owner was removed at revision %d", c.Cause)
	case whyKindUnknown:
		return fmt.Sprintf("the kind %s is not registered in this realm", APIVersionOf(r.Group(), r.Kind))
	case whyVersionUnknown:
		return fmt.Sprintf("the kind %s has no version %s", APIVersionOf(r.Group(), r.Kind), VersionOf(r.APIVersion))
	case whyScope:
		return fmt.Sprintf("a cluster-scoped object cannot have a namespaced owner, and %s is namespaced", APIVersionOf(r.Group(), r.Kind))
	case whyMismatch:
		owner := v.Node(r.UID)
		if owner == nil {
			return "the uid belongs to another object"
		}
		return fmt.Sprintf("the uid belongs to %s, not to %s %q", KeyOf(v, owner), r.Kind, r.Name)
	case whyGrace:
		return "the owner was never seen, and may still come"
	case whyNeverSeen:
		return "the owner does not exist"
	}
	return ""
}

// Fits reports whether reference r of the dependent n is true of owner: group,
// kind and name agree, and the owner is in the dependent's namespace or
// cluster-scoped (A16). Versions do not matter.
func Fits(n *Node, r *OwnerReference, owner *Node) bool {
	return owner.Kind == r.Kind && owner.Name == r.Name &&
		(owner.Namespace == "" || owner.Namespace == n.Namespace) &&
		(owner.APIVersion == r.APIVersion || owner.Group() == r.Group())
}

// Classify classifies the owner reference r of the object n (A12.6, A16).
func Classify(v View, n *Node, r *OwnerReference, now Time) Classification {
	owner := v.Node(r.UID)
	if owner != nil && Fits(n, r, owner) {
		if owner.Waiting() {
			return Classification{Class: Waiting, Cause: owner.DeletionRevision, why: whyWaiting}
		}
		// A terminating owner without the foreground finalizer is solid.
		return Classification{Class: Solid, why: whySolid}
	}
	// A recorded removal of just what the reference names outranks
	// everything that may not be known about its kind.
	if owner == nil {
		if at, ok := removed(v, n, r); ok {
			return Classification{Class: Dangling, Cause: at, why: whyRemoved}
		}
	}
	kind := v.Kinds().Of(r.Group(), r.Kind)
	switch {
	case kind == nil:
		return Classification{Class: Unknown, why: whyKindUnknown}
	case !kind.Serves(VersionOf(r.APIVersion)):
		return Classification{Class: Unknown, why: whyVersionUnknown}
	case kind.Namespaced() && n.Namespace == "":
		return Classification{Class: Unknown, why: whyScope}
	case owner != nil:
		return Classification{Class: Dangling, why: whyMismatch}
	}
	if until := unknownUntil(v, n, kind); now < until {
		return Classification{Class: Unknown, Until: until, why: whyGrace}
	}
	return Classification{Class: Dangling, why: whyNeverSeen}
}

// removed finds the recorded removal of the owner that r names: in the
// dependent's namespace, or cluster-scoped.
func removed(v View, n *Node, r *OwnerReference) (revision uint64, ok bool) {
	claim := n.Claim(r)
	if at, ok := v.Removed(r.UID, claim); ok {
		return at, true
	}
	if claim.Namespace == "" {
		return 0, false
	}
	claim.Namespace = ""
	return v.Removed(r.UID, claim)
}

// unknownUntil is when an owner of this kind that was never seen counts as
// absent for n: at once for an object that was created through the API when
// the kind was registered; otherwise a grace after the import, or after the
// kind was registered, and not while the import session is open.
func unknownUntil(v View, n *Node, kind *Kind) Time {
	start := n.ImportTime
	if kind.RegisteredAt > n.Appeared() {
		start = max(start, kind.RegisteredAt)
	}
	if start == 0 {
		return 0
	}
	until := start.Add(v.Options().OwnerGrace)
	if n.ImportSession != "" {
		until = max(until, v.Session(n.ImportSession).Expires)
	}
	return until
}
