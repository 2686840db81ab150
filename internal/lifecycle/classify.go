package lifecycle

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Class is the class of an owner reference: whether the owner keeps the object.
type Class = coppicev1.OwnerClass

// The classes. An object may be collected if all of its references are Dangling or
// Waiting; an Unknown owner may exist (S2).
const (
	Solid    = coppicev1.OwnerClass_OWNER_CLASS_SOLID
	Waiting  = coppicev1.OwnerClass_OWNER_CLASS_WAITING
	Dangling = coppicev1.OwnerClass_OWNER_CLASS_DANGLING
	Unknown  = coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN
)

// Classification is the class of one owner reference.
type Classification struct {
	Class Class
	// Cause is the revision of the owner's removal or of its mark for deletion, if one
	// of them led to the class; otherwise zero.
	Cause uint64
	// Until is when an unknown owner counts as absent if it does not appear before;
	// zero if no passage of time makes it count as absent.
	Until Time

	why     why
	version string // that the kind does not have
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
	whyMoved
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
		return fmt.Sprintf("the kind %s has no version %s", APIVersionOf(r.Group(), r.Kind), c.version)
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
	case whyMoved:
		owner := v.Node(r.UID)
		return fmt.Sprintf("the uid belongs to %s, and only the group differs; %s", KeyOf(v, owner), rewrite(owner))
	case whyGrace:
		return "the owner was never seen, and may still come"
	case whyNeverSeen:
		return "the owner does not exist"
	}
	return ""
}

// rewrite says what to do about a reference to an owner that has moved to another group.
func rewrite(owner *Node) string { return "write apiVersion " + owner.APIVersion + " in the reference" }

// Fits reports whether reference r of the dependent n is true of owner: group,
// kind and name agree, and the owner is in the dependent's namespace or
// cluster-scoped (A16). Versions do not matter.
func Fits(n *Node, r *OwnerReference, owner *Node) bool {
	return owner.Kind == r.Kind && owner.Name == r.Name &&
		(owner.Namespace == "" || owner.Namespace == n.Namespace) &&
		(owner.APIVersion == r.APIVersion || owner.Group() == r.Group())
}

// Classify classifies the owner reference r of the object n (A12.6, A16). For several references of an
// object use a Classifier: Classify looks at all of them.
func Classify(v View, n *Node, r *OwnerReference, now Time) Classification {
	c := Classifier{v: v, n: n, now: now, compared: true}
	for i := range n.Owners {
		if o := &n.Owners[i]; o.UID == r.UID {
			c.compare(o)
		}
	}
	return c.Classify(r)
}

// Classifier classifies the owner references of one object, in a time that grows with their number. It is
// for one goroutine, and valid as long as the view does not change.
type Classifier struct {
	v   View
	n   *Node
	now Time

	compared bool
	unserved map[ownerKey]string // a version that the kind of these references does not have; nil for none
}

// NewClassifier returns a classifier for the references of n.
func NewClassifier(v View, n *Node, now Time) Classifier { return Classifier{v: v, n: n, now: now} }

// unservedVersion returns a version that the kind does not have and that is named by r or by
// another reference of the object that differs from r only in its version. Such references have
// the same class, because they are stripped together.
func (c *Classifier) unservedVersion(r *OwnerReference) string {
	if !c.compared {
		c.compared = true
		for i := range c.n.Owners {
			c.compare(&c.n.Owners[i])
		}
	}
	if c.unserved == nil {
		return ""
	}
	return c.unserved[r.key()]
}

// compare notes the version of a reference if its kind does not have it.
func (c *Classifier) compare(r *OwnerReference) {
	kind, version := c.v.Kinds().Of(r.Group(), r.Kind), VersionOf(r.APIVersion)
	if kind == nil || kind.Serves(version) {
		return
	}
	if c.unserved == nil {
		c.unserved = map[ownerKey]string{}
	}
	if key := r.key(); c.unserved[key] == "" {
		c.unserved[key] = version
	}
}

// Classify classifies a reference of the object.
func (c *Classifier) Classify(r *OwnerReference) Classification {
	v, n, now := c.v, c.n, c.now
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
	if owner != nil && moved(n, r, owner) {
		return Classification{Class: Unknown, why: whyMoved}
	}
	// A recorded removal of exactly the object that the reference names counts even if
	// its kind is not registered.
	removal, same := uint64(0), false
	if owner == nil {
		removal, same = removedAs(v, r.UID, n.Claim(r))
	}
	if same {
		return c.removed(removal)
	}
	kind := v.Kinds().Of(r.Group(), r.Kind)
	switch {
	case kind == nil:
		return Classification{Class: Unknown, why: whyKindUnknown}
	case c.unservedVersion(r) != "":
		return Classification{Class: Unknown, why: whyVersionUnknown, version: c.unservedVersion(r)}
	case kind.Namespaced() && n.Namespace == "":
		return Classification{Class: Unknown, why: whyScope}
	case removal != 0 && removedMoved(v, r.UID, n.Claim(r)):
		return c.removed(removal)
	case owner != nil, removal != 0:
		if until := sessionEnd(v, n); now < until {
			return Classification{Class: Unknown, Until: until, why: whyMismatch} // R2: policies may be imported that protect n
		}
		return Classification{Class: Dangling, why: whyMismatch}
	}
	if until := unknownUntil(v, n, kind); now < until {
		return Classification{Class: Unknown, Until: until, why: whyGrace}
	}
	return Classification{Class: Dangling, why: whyNeverSeen}
}

// removed classifies a reference to an owner that was removed at a revision.
func (c *Classifier) removed(at uint64) Classification {
	if until := mayReturnUntil(c.v, c.n, at); c.now < until {
		return Classification{Class: Unknown, Until: until, why: whyMayReturn}
	}
	return Classification{Class: Dangling, Cause: at, why: whyRemoved}
}

// removedAs returns the revision at which the object with this uid was removed, and
// whether the object matched the claim: in the dependent's namespace, or cluster-scoped.
// If it did not match, no such owner can appear: a uid is never used for another object
// (S6).
func removedAs(v View, u uid.UID, claim Coordinates) (revision uint64, same bool) {
	revision, same = v.Removed(u, claim)
	if !same && claim.Namespace != "" {
		claim.Namespace = ""
		revision, same = v.Removed(u, claim)
	}
	return revision, same
}

// mayReturnUntil returns the time until which the removal of an owner does not count for
// n, zero if it counts now. An import may restore removed objects, dependents before their
// owners. So an object that was imported after the removal waits until its import session
// ends (X11). If n has changed since its import, it is unknown which was first, and n
// waits as well.
func mayReturnUntil(v View, n *Node, removal uint64) Time {
	if n.Revision < removal {
		return 0
	}
	return sessionEnd(v, n)
}

// sessionEnd returns when the import session of n ends unless it gets further commands;
// zero if it was closed or there was none.
func sessionEnd(v View, n *Node) Time {
	if n.ImportSession == "" {
		return 0
	}
	return v.Session(n.ImportSession).Expires
}

// unknownUntil returns when an owner of this kind that was never seen counts as absent for
// n. It is zero, for at once, if n was created through the API when the kind was
// registered. Otherwise it is the owner grace after the import or after the registration
// of the kind, and not before the import session ends.
func unknownUntil(v View, n *Node, kind *Kind) Time {
	start := n.ImportTime
	if kind.RegisteredAt > n.Appeared() {
		start = max(start, kind.RegisteredAt)
	}
	if start == 0 {
		return 0
	}
	return max(v.Pauses().End(start, v.Settings().OwnerGrace), sessionEnd(v, n))
}
