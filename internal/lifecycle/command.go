package lifecycle

import (
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Context is what a rule may know: the state, and the values that differ from
// one execution to the next.
type Context struct {
	View
	// Now is the time of the commit that the command will be in.
	Now Time
	// Actor is who sent the command.
	Actor string
	// NewUID draws the uid of a created object.
	NewUID func() uid.UID
	// NewSuffix draws what completes a generateName.
	NewSuffix func() string
	// Trip is called when a brake that is not tripped refuses a deletion, with the brake as it
	// must become; nil for none.
	Trip func(*Kind, Brake)
	// Across: the actor has the permission to write uses of objects in other namespaces (B3.10).
	Across bool
	// RemovesFinalizers: an update, patch, apply or import removes the external finalizers that it
	// leaves out. Otherwise the object keeps them, and the reply has a warning. No request of a
	// client has this: what shows the permission is the subject of removefinalizer.
	RemovesFinalizers bool
	// StrictOwners: a create, update, patch or apply is refused if an owner that it adds does not keep the
	// object. Otherwise the reply has a warning.
	StrictOwners bool
	// MaxObject is the size of the largest object, in bytes of its protobuf encoding.
	MaxObject int
}

// Outcome is what a command does to one object.
type Outcome struct {
	// Code is 200, 201 or 202.
	Code uint32
	// Events are what to write; none for a command that changes nothing.
	Events []Event
	// Object is the reply where the events do not leave one behind: the
	// object before its removal, or the object unchanged.
	Object   Object
	Warnings []string
	// BodyOptional: the decision does not depend on the body of the object. If it cannot be
	// decoded, the reply has none, and a warning (B8.1).
	BodyOptional bool
}

// Changed reports whether the outcome has events.
func (o *Outcome) Changed() bool { return len(o.Events) > 0 }

// Find returns the live object with this key, or an error with api.ErrNotFound.
func Find(v View, k Key) (*Node, *Error) {
	if u := v.Lookup(k.Kind, k.Namespace, k.Name); u != "" {
		if n := v.Node(u); n != nil {
			return n, nil
		}
	}
	return nil, errNotFound(k)
}

// KeyOf is the key of an object.
func KeyOf(v View, n *Node) Key {
	return Key{Kind: v.Kinds().OfNode(n), Namespace: n.Namespace, Name: n.Name}
}

// checkPreconditions compares with what is stored (A4.6, A2.1, A2.2). The zero
// value of a precondition holds always.
func checkPreconditions(k Key, n *Node, want *coppicev1.Preconditions) *Error {
	if u := want.GetUid(); u != "" && u != n.UID.String() {
		return errConflict(k, "uid precondition failed: have %s, want %s; read the object again", n.UID, u)
	}
	if rv := want.GetResourceVersion(); rv != 0 && rv != n.Revision {
		return errConflict(k, "resourceVersion precondition failed: have %d, want %d; read the object again", n.Revision, rv)
	}
	return nil
}
