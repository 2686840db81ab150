package lifecycle

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// EventType says what happened to an object.
type EventType uint8

// The types of events.
const (
	_ EventType = iota
	// ObjectCreated: the object is Object.
	ObjectCreated
	// ObjectUpdated: the object is Object; its body is unchanged where Object has none.
	ObjectUpdated
	// DeletionMarked: the object is terminating, as Mark says.
	DeletionMarked
	// OwnerReferencesRemoved: all references that agree with one of
	// References in uid and coordinates are gone.
	OwnerReferencesRemoved
	// FinalizerRemoved: Finalizers[0] is gone.
	FinalizerRemoved
	// ObjectDeleted: the object is removed, and with it its last finalizers,
	// Finalizers.
	ObjectDeleted
)

// Event is one change of one object, and its reason. Events are facts: the rule that
// returned them has decided, and Event.After only applies them.
type Event struct {
	Type EventType
	// UID is the object.
	UID uid.UID
	// Reason and Cause say why: Cause is the revision of the event that made
	// this one necessary, or zero.
	Reason coppicev1.Reason
	Cause  uint64
	// Expired is set for the deletion of an object that has expired, which a brake counts. The log
	// does not record it: it records the brake.
	Expired bool

	Object     Object           // ObjectCreated, ObjectUpdated
	Mark       Mark             // DeletionMarked
	References []OwnerReference // OwnerReferencesRemoved
	Finalizers []string         // FinalizerRemoved, ObjectDeleted
}

// Mark is what marking an object for deletion writes.
type Mark struct {
	Time        Time
	GracePeriod *int64
	Generation  int64
	Finalizers  []string
	// AwaitedGeneration is as in Node.
	AwaitedGeneration int64
}

// After returns what the event makes of the object: nil after its removal. It
// modifies neither before nor the event. before is nil for a creation.
func (e *Event) After(before *Node, revision uint64) *Node {
	switch e.Type {
	case ObjectCreated, ObjectUpdated:
		n := *e.Object.Node
		n.Revision = revision
		if n.Terminating() && n.DeletionRevision == 0 {
			n.DeletionRevision = revision // imported
		}
		return &n
	case ObjectDeleted:
		return nil
	}
	n := *before
	n.Revision = revision
	switch e.Type {
	case DeletionMarked:
		n.DeletionTime, n.GracePeriod = e.Mark.Time, e.Mark.GracePeriod
		n.Generation, n.AwaitedGeneration = e.Mark.Generation, e.Mark.AwaitedGeneration
		n.Finalizers = e.Mark.Finalizers
		n.DeletionRevision = revision
	case OwnerReferencesRemoved:
		gone := ClaimedBy(e.References)
		n.Owners = slices.DeleteFunc(slices.Clone(n.Owners), func(r OwnerReference) bool { return gone(&r) })
		if len(n.Owners) == 0 {
			n.Owners = nil
		}
	case FinalizerRemoved:
		n.Finalizers = withoutFinalizer(n.Finalizers, e.Finalizers[0])
	}
	return &n
}

func withoutFinalizer(list []string, name string) []string {
	var rest []string
	for _, f := range list {
		if f != name {
			rest = append(rest, f)
		}
	}
	return rest
}
