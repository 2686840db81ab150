package lifecycle

import "github.com/coppice-gc/coppice/internal/uid"

// A kind can move to another group, as Deployment has moved from extensions to apps. Objects that
// were written before name their owner in the old group, with the uid under which the owner is
// stored in the new one. Such a reference is unknown while the owner exists: nothing says that the
// owner is gone, and the group may also be wrong by mistake. It is never valid, so that it blocks
// nothing (S8). Once the owner is removed, the reference names no object in either group, and is
// dangling. Only the orphan finalizer of the owner removes it (S9).

// movedTo reports whether the claim would be true of owner if it named the owner's group.
func (c Coordinates) movedTo(owner *Node) bool {
	return c.Kind == owner.Kind && c.Name == owner.Name && c.Group != owner.Group() &&
		(owner.Namespace == "" || owner.Namespace == c.Namespace)
}

// moved reports whether reference r of the dependent n differs from owner in nothing but the
// group (A16).
func moved(n *Node, r *OwnerReference, owner *Node) bool { return n.Claim(r).movedTo(owner) }

// removedMoved reports whether the object that had this uid, and was removed, differs from the
// claim in nothing but the group.
func removedMoved(v View, u uid.UID, claim Coordinates) bool {
	for _, k := range v.Kinds().named(claim.Kind) {
		if k.Group == claim.Group {
			continue
		}
		in := claim
		in.Group = k.Group
		if _, same := removedAs(v, u, in); same {
			return true
		}
	}
	return false
}

// orphans reports whether the orphan finalizer of owner removes reference r of the dependent n:
// one that is valid, or would be if the owner had not moved to another group. The group that such
// a reference names must be registered, because Orphanable counts no others. The class of the
// others does not change when the owner is removed.
func orphans(v View, n *Node, r *OwnerReference, owner *Node) bool {
	return r.UID == owner.UID && (Fits(n, r, owner) || moved(n, r, owner) && v.Kinds().Of(r.Group(), r.Kind) != nil)
}

// Orphanable returns whether dependents have references that the orphan finalizer of n has to
// remove, and whether some of these name n in a group from which it has moved.
func Orphanable(v View, n *Node) (any, moved bool) {
	valid := Dependents(v, n).All
	if all := v.Count(n.UID, Claims{}); all.All > valid {
		claims := ValidClaims(n)
		for _, k := range v.Kinds().named(n.Kind) {
			if claims.Group = k.Group; k.Group != n.Group() && v.Count(n.UID, claims).All > 0 {
				return true, true
			}
		}
	}
	return valid > 0, false
}
