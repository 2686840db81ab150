package lifecycle

// What Coppice warns operators of, by the reason that its warnings carry. The first
// has the name that it has in Kubernetes (A16, A18).
const (
	// WarnInvalidNamespace: an owner reference names an object in another namespace.
	WarnInvalidNamespace = "OwnerRefInvalidNamespace"
	// WarnUnresolvable: the kind of an owner, or its version, is not
	// registered, or is not one that the object can have as an owner, or
	// the owner has moved to another group.
	WarnUnresolvable = "OwnerRefUnresolvable"
	// WarnUnreachable: the object is in a cycle that owns itself, and that
	// nothing outside of it owns.
	WarnUnreachable = "UnreachableCycle"
	// WarnUseCycle: the object waited for objects that use it, and through them for itself.
	// A use was released.
	WarnUseCycle = "UseCycle"
	// WarnStuck: an external finalizer or an agent has not answered for long.
	WarnStuck = "FinalizerStuck"
	// WarnUnpublished: the call of an external finalizer or agent cannot be published.
	WarnUnpublished = "CallNotPublished"
	// WarnCrowded: unknown owners keep too many dependents of an owner that is
	// deleted in the foreground; see MaxExamined.
	WarnCrowded = "TooManyUnknown"
	// WarnProtected: no owner keeps the object, and it stays because it is protected; or the
	// deletion of the object waits for one that is protected.
	WarnProtected = "DeletionProtected"
	// WarnExpiry: an expiry policy has given notice of the deletion of the object.
	WarnExpiry = "ExpiryNotice"
	// WarnPodDrain: the rest of a namespace that is being deleted has waited for its Pods for
	// as long as the setting podDrainTimeout says, and is deleted now.
	WarnPodDrain = "PodDrainTimeout"
	// WarnBraked: the brake of a kind is tripped. The warning is about the registration of the
	// kind.
	WarnBraked = "BrakeTripped"
	// WarnSkipped: the realm's log has messages that are no commits of the realm.
	// The warning is about the realm itself.
	WarnSkipped = "MessagesSkipped"
	// WarnDamaged: messages of the realm's log are missing or cannot be read. The warning
	// is about the realm itself.
	WarnDamaged = "LogDamaged"
	// WarnRebuilt: the state of a graph service was damaged and is rebuilt from the log.
	// The warning is about the realm itself.
	WarnRebuilt = "StateRebuilt"
	// WarnUnarchived: the realm's log cannot be archived, or a graph service cannot read the archive and cannot
	// start without it. The warning is about the realm itself.
	WarnUnarchived = "LogNotArchived"
	// WarnArchiveDamaged: entries of the realm's archive cannot be used, and are passed over. The warning is about the
	// realm itself.
	WarnArchiveDamaged = "ArchiveDamaged"
	// WarnUncut: the realm's log is larger than its retention. The warning is about the realm
	// itself.
	WarnUncut = "LogTooLarge"
	// WarnArchiveTooLarge: the realm's archive is larger than its retention, because of what is always kept. The
	// warning is about the realm itself.
	WarnArchiveTooLarge = "ArchiveTooLarge"
	// WarnDiskFilling: the disk of the state of a graph service is almost full. The warning is about a realm that has
	// a state there.
	WarnDiskFilling = "DiskFilling"
)

// Warning is the reason of the warning that a classification of the reference
// r of n deserves, "" if it deserves none.
func (c Classification) Warning(v View, n *Node, r *OwnerReference) string {
	switch c.why {
	case whyKindUnknown, whyVersionUnknown, whyScope, whyMoved:
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
