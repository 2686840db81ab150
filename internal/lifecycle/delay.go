package lifecycle

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
)

// MaxExamined is how many dependents one commit examines, at most, to complete
// deletions in the foreground. An owner with more dependents that only unknown
// owners keep waits until fewer remain.
const MaxExamined = 20_000

// Delay is whether a dependent delays the foreground deletion of its owner.
type Delay uint8

// The delays.
const (
	// NoDelay: the dependent does not count. Its reference is not valid, or it
	// does not block and is terminating.
	NoDelay Delay = iota
	// Delays: the dependent blocks, or the collector has still to collect it or
	// to remove its reference to the owner.
	Delays
	// KeptByUnknown: the collector leaves the dependent alone, because nothing
	// is known of one of its owners. It does not block, and does not count.
	KeptByUnknown
)

// DelayOf decides whether the dependent d delays the foreground deletion of an
// owner that waits (A13). What the collector would do with d is what Judge says,
// as for the collector itself, so that an owner waits for exactly that.
func DelayOf(v View, d, owner *Node, now Time) Delay {
	switch {
	case !slices.ContainsFunc(d.Owners, func(r OwnerReference) bool { return r.UID == owner.UID && Fits(d, &r, owner) }):
		return NoDelay
	case Holds(d, owner):
		return Delays
	case d.Terminating():
		return NoDelay
	case Judge(v, d, now).Verdict == Wait:
		return KeptByUnknown
	}
	return Delays
}

// allKept reports whether as many dependents of owner as are pending are among
// those that were found to be kept, and still are.
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
