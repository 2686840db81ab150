package lifecycle

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/uid"
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
	whyImporting
	whyRemoved
	whyMayReturn
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
	case whyImporting:
		return "the owner is being deleted in the foreground, which begins when the import session that brought it ends"
	case whyRemoved:
		return fmt.Sprintf("the owner was removed at revision %d", c.Cause)
	case whyMayReturn:
		return "the owner was removed, and may come back in the import session that brought the object"
	case whyKindUnknown:
		return fmt.Sprintf("the kind %s is not registered in this realm", APIVersionOf(r.Group(), r.Kind))
	case whyVersionUnknown:
		return fmt.Sprintf("the kind %s has no version %s", APIVersionOf(r.Group(), r.Kind), unserved(v.Kinds().Of(r.Group(), r.Kind), n, r))
	case whyScope:
		return fmt.Sprintf("a cluster-scoped object cannot have a namespaced owner, and %s is namespaced", APIVersionOf(r.Group(), r.Kind))
	case whyMismatch:
		owner := v.Node(r.UID)
		if owner == nil {
			return "the uid was that of another object"
		}
		claimed := fmt.Sprintf("%s %q", r.Kind, r.Name)
		if kind := v.Kinds().Of(r.Group(), r.Kind); kind != nil && kind.Namespaced() {
			claimed += fmt.Sprintf(" in namespace %q", n.Namespace)
		}
		return fmt.Sprintf("the uid belongs to %s, not to %s", KeyOf(v, owner), claimed)
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
			if until := sessionEnd(v, owner); now < until {
				return Classification{Class: Unknown, Until: until, why: whyImporting}
			}
			return Classification{Class: Waiting, Cause: owner.DeletionRevision, why: whyWaiting}
		}
		// A terminating owner without the foreground finalizer is solid.
		return Classification{Class: Solid, why: whySolid}
	}
	// A recorded removal of just what the reference names outranks
	// everything that may not be known about its kind.
	removal, same := uint64(0), false
	if owner == nil {
		removal, same = removedAs(v, r.UID, n.Claim(r))
	}
	if same {
		if until := mayReturnUntil(v, n, removal); now < until {
			return Classification{Class: Unknown, Until: until, why: whyMayReturn}
		}
		return Classification{Class: Dangling, Cause: removal, why: whyRemoved}
	}
	kind := v.Kinds().Of(r.Group(), r.Kind)
	switch {
	case kind == nil:
		return Classification{Class: Unknown, why: whyKindUnknown}
	case unserved(kind, n, r) != "":
		return Classification{Class: Unknown, why: whyVersionUnknown}
	case kind.Namespaced() && n.Namespace == "":
		return Classification{Class: Unknown, why: whyScope}
	case owner != nil, removal != 0:
		return Classification{Class: Dangling, why: whyMismatch}
	}
	if until := unknownUntil(v, n, kind); now < until {
		return Classification{Class: Unknown, Until: until, why: whyGrace}
	}
	return Classification{Class: Dangling, why: whyNeverSeen}
}

// unserved is a version that the kind does not have and that r names, or another
// reference of n that is the same but for its version: the two stand and fall
// together, as they are stripped together.
func unserved(kind *Kind, n *Node, r *OwnerReference) string {
	for i := range n.Owners {
		o := &n.Owners[i]
		if version := VersionOf(o.APIVersion); o.SameOwner(r) && !kind.Serves(version) {
			return version
		}
	}
	return ""
}

// removedAs finds the recorded removal of the object with this uid, and
// whether it was what a claim says: in the dependent's namespace, or
// cluster-scoped. If it was not, no such owner can come any more: a uid is
// never used for another object (S6).
func removedAs(v View, u uid.UID, claim Coordinates) (revision uint64, same bool) {
	revision, same = v.Removed(u, claim)
	if !same && claim.Namespace != "" {
		claim.Namespace = ""
		revision, same = v.Removed(u, claim)
	}
	return revision, same
}

// mayReturnUntil is until when the removal of an owner does not count for n.
// An import may restore what was removed, dependents before their owners; so
// an object that an import brought after the removal waits until its session
// closes (X11). Where n has changed since it was imported it is not known which
// came first, and it waits as well.
func mayReturnUntil(v View, n *Node, removal uint64) Time {
	if n.Revision < removal {
		return 0
	}
	return sessionEnd(v, n)
}

// sessionEnd is when the import session that brought n ends if nothing more
// comes, zero if it was closed or there was none.
func sessionEnd(v View, n *Node) Time {
	if n.ImportSession == "" {
		return 0
	}
	return v.Session(n.ImportSession).Expires
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
	return max(start.Add(v.Options().OwnerGrace), sessionEnd(v, n))
}
