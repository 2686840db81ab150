package lifecycle

// What the collector warns of, by the reason that its warnings carry. The first
// has the name that it has in Kubernetes (A16, A18).
const (
	// WarnInvalidNamespace: an owner reference names an object in another namespace.
	WarnInvalidNamespace = "OwnerRefInvalidNamespace"
	// WarnUnresolvable: the kind of an owner, or its version, is not
	// registered, or is not one that the object can have as an owner.
	WarnUnresolvable = "OwnerRefUnresolvable"
	// WarnUnreachable: the object is in a cycle that owns itself, and that
	// nothing outside of it owns.
	WarnUnreachable = "UnreachableCycle"
	// WarnStuck: an external finalizer or an agent has not answered for long.
	WarnStuck = "FinalizerStuck"
	// WarnUnpublished: the call of an external finalizer or agent cannot be published.
	WarnUnpublished = "CallNotPublished"
	// WarnCrowded: unknown owners keep too many dependents of an owner that is
	// deleted in the foreground; see MaxExamined.
	WarnCrowded = "TooManyUnknown"
	// WarnSkipped: the realm's log has messages that are no commits of the realm.
	// The warning is about the realm itself.
	WarnSkipped = "MessagesSkipped"
	// WarnDamaged: messages of the realm's log are missing or cannot be read. The warning
	// is about the realm itself.
	WarnDamaged = "LogDamaged"
	// WarnRebuilt: the state of a graph service was damaged and is rebuilt from the log.
	// The warning is about the realm itself.
	WarnRebuilt = "StateRebuilt"
	// WarnUnarchived: the realm's log cannot be archived. The warning is about the realm itself.
	WarnUnarchived = "LogNotArchived"
)

// Warning is the reason of the warning that a classification of the reference
// r of n deserves, "" if it deserves none.
func (c Classification) Warning(v View, n *Node, r *OwnerReference) string {
	switch c.why {
	case whyKindUnknown, whyVersionUnknown, whyScope:
		return WarnUnresolvable
	case whyMismatch:
		owner := v.Node(r.UID)
		if owner == nil || owner.Namespace == "" || owner.Namespace == n.Namespace {
			return ""
		}
		claimed, is := n.Claim(r), owner.Coordinates()
		claimed.Namespace = is.Namespace
		if claimed == is {
			return WarnInvalidNamespace
		}
	}
	return ""
}
