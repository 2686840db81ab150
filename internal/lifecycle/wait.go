package lifecycle

import (
	"fmt"
	"slices"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// WaitReason is why the removal of an object waits for another object. References to owners,
// uses and containers form one wait graph (B3.9).
type WaitReason uint8

// The kinds of waits.
const (
	NoWait WaitReason = iota
	// WaitsForUser: the other object uses it.
	WaitsForUser
	// WaitsForDependent: it is deleted in the foreground, and the other object blocks it.
	WaitsForDependent
	// WaitsForContent: it is a namespace or kind, and contains the other object.
	WaitsForContent
)

func (w WaitReason) String() string {
	return [...]string{"", "is used by", "is owner of", "contains"}[w]
}

// WaitOf returns why the removal of an object, of, waits for n. If there are several reasons, it
// returns one that releasing a use does not remove.
func WaitOf(v View, of, n *Node) WaitReason {
	switch {
	case Blocks(n, of):
		return WaitsForDependent
	case of.Draining() && Contains(v, of, n):
		return WaitsForContent
	case of.InUse() && Uses(n, of):
		return WaitsForUser
	}
	return NoWait
}

// Waits reports whether the removal of n waits for other objects: its users, or dependents
// that block it.
func Waits(v View, n *Node) bool {
	return n.InUse() && v.Users(n).All > 0 || n.Waiting() && Dependents(v, n).Blocking > 0
}

// Released returns the index of the object in a cycle that Unblock stops from using the
// next one, -1 if no use in the cycle can be released, or if it is no such cycle.
func Released(v View, cycle []*Node) int {
	user := -1
	for i, n := range cycle {
		switch WaitOf(v, cycle[(i+1)%len(cycle)], n) {
		case NoWait:
			return -1
		case WaitsForUser:
			if user < 0 {
				user = i
			}
		case WaitsForDependent, WaitsForContent:
		}
	}
	return user
}

// Path describes a cycle of objects that wait for each other, from an object to those that
// it waits for and back to itself.
func Path(v View, cycle []*Node) string {
	text := KeyOf(v, cycle[0]).String()
	for i := len(cycle) - 1; i >= 0; i-- { // each blocks the next
		n, of := cycle[i], cycle[(i+1)%len(cycle)]
		text += fmt.Sprintf(" %s %s", WaitOf(v, of, n), KeyOf(v, n))
	}
	return text
}

// release returns the event by which n loses its use of the object (B3.9).
func release(n, used *Node) []Event {
	after := *n
	after.Uses = slices.Delete(slices.Clone(n.Uses), useOf(n, used), useOf(n, used)+1)
	if len(after.Uses) == 0 {
		after.Uses = nil
	}
	return []Event{{
		Type: ObjectUpdated, UID: n.UID, Reason: coppicev1.Reason_REASON_CYCLE, Cause: n.DeletionRevision, Object: Object{Node: &after},
	}}
}
