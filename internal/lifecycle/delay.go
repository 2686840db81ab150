package lifecycle

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
)

// MaxExamined is the maximum number of dependents that one commit examines to complete
// foreground deletions. An owner with more dependents that only unknown owners keep waits
// until fewer remain.
const MaxExamined = 20_000

// Delay is whether a dependent delays the foreground deletion of its owner.
type Delay uint8

// The delays.
const (
	// NoDelay: the dependent does not delay the owner, because its reference is not
	// valid, or because it does not block and is terminating.
	NoDelay Delay = iota
	// Delays: the dependent blocks, or the collector still has to collect it or to
	// remove its reference to the owner.
	Delays
	// KeptByUnknown: the collector keeps the dependent, because one of its owners is
	// unknown. It does not block, and does not delay the owner.
	KeptByUnknown
)

// DelayOf decides whether the dependent d delays the foreground deletion of an
// owner that waits (A13). It calls Evaluate, as the collector does, so that an owner waits
// exactly for the dependents that the collector acts on.
func DelayOf(v View, d, owner *Node, now Time) Delay {
	switch {
	case !slices.ContainsFunc(d.Owners, func(r OwnerReference) bool { return r.UID == owner.UID && Fits(d, &r, owner) }):
		return NoDelay
	case Blocks(d, owner):
		return Delays
	case d.Terminating():
		return NoDelay
	case d.Protected():
		return Delays // B2.8, also if an unknown owner would keep it
	case Evaluate(v, d, now).Decision == Wait:
		return KeptByUnknown
	}
	return Delays
}

// allKept reports whether pending of the dependents that were found to be kept still are.
func allKept(v View, owner *Node, pending uint64, found []uid.UID, now Time) bool {
	if pending > MaxExamined || uint64(len(found)) < pending {
		return false
	}
	kept := make(map[uid.UID]bool, len(found))
	for _, u := range found {
		if d := v.Node(u); d != nil && DelayOf(v, d, owner, now) == KeptByUnknown {
			kept[u] = true
		}
	}
	return uint64(len(kept)) == pending
}
