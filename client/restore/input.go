package restore

import (
	"time"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Options select how a restoration treats missing owners, taken names, status and expiry.
type Options struct {
	// WithOwners restores owners and used objects that are gone, too.
	WithOwners bool
	// DropDangling drops references to owners, and uses of objects, that are gone and not restored.
	DropDangling bool
	// SkipExisting leaves out objects whose name is taken.
	SkipExisting bool
	// WithStatus restores the status, too.
	WithStatus bool
	// Expires is the new expiresAt of objects whose own has passed; the zero time removes it. If it
	// is nil, such objects refuse the restoration.
	Expires *time.Time
}

// input is what a plan is computed from. It is not modified.
type input struct {
	Cascade *cascade
	Options Options
	// Before are the members as they were before the cascade, and the survivors without labels,
	// annotations, spec and status, by uid.
	Before map[string]*formerObject
	// Now are the objects that exist and may matter: owners, used objects, survivors and
	// restored ones, by uid.
	Now map[string]*coppicev1.GraphNode
	// Taken are the uids of objects that have a name of a member now.
	Taken map[objectName]string
	// Dependents are the uids of objects that had a valid reference to a member before the cascade,
	// and are not members.
	Dependents []string
	// Unread are the members, by uid, that had too many dependents to look at all of them, and how many.
	Unread map[string]uint64
	// Unplaced says, of an object that is to be restored, why its kind or its namespace cannot
	// have it, empty if nothing is wrong. restored reports whether the object with a resource and
	// a name is restored, too.
	Unplaced func(o *client.Object, restored func(resource, name string) bool) string
	// Shared reports whether the realm settings share a namespace; nil for all.
	Shared func(namespace string) bool
	// Time is the present time.
	Time time.Time
	// NewUID returns a uid that was never used.
	NewUID func() string
}

// formerObject is an object as it was before a cascade.
type formerObject struct {
	Object *client.Object
	// Classes are those of its owner references, in their order.
	Classes []coppicev1.OwnerClass
	// UseStates are those of its uses, in their order.
	UseStates []string
}

// objectName is the name of an object.
type objectName struct{ Resource, Namespace, Name string }

// Plan is what a restoration will do.
type Plan struct {
	// Objects are created in this order: kinds and namespaces, owners, what they own.
	Objects []*Item
	// Survivors get references back.
	Survivors []*Survivor
	// Notes say what is left out or changed, and what is not restored.
	Notes []Note
	// Refusals say why the restoration is refused; empty if it is not.
	Refusals []Note
	// Gone are the uids of owners and used objects that are gone and not members.
	Gone []string

	newUID map[string]string // by the old one: of Objects, and of those restored before
	note   string            // kept in the log
	c      *client.Client
}

// Item is an object that is created again.
type Item struct {
	Resource string
	// Old is the uid that the object had.
	Old string
	// Object has the new uid, and references to the new uids of its owners.
	Object *client.Object
	// Deletion is the revision of the object's removal.
	Deletion uint64
	level    int
}

// Survivor is an object that gets references back.
type Survivor struct {
	Resource string
	// Object is as it is now, with the references that it will have.
	Object *client.Object
	// Back are the references that the restoration adds, and those of the object that it
	// changes from the old uid of an owner to the new one.
	Back []*client.OwnerReference
	// Deletion is the revision of the event that removed the first of these references.
	Deletion uint64
}

// Note says something about an object.
type Note struct {
	Resource, Namespace, Name string
	Text                      string
}

func (n Note) String() string { return named(n.Resource, n.Namespace, n.Name) + ": " + n.Text }
