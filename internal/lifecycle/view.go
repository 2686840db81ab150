package lifecycle

import (
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// View is the state of a realm at one revision, for rules to read.
//
// Methods of a View return no errors. If a read from disk fails, the implementation
// remembers the failure and returns an arbitrary result, and its owner discards everything
// that was decided on it. For a rule, "not found" therefore always means absent.
//
// A View is not safe for concurrent use.
type View interface {
	// Kinds returns the registered kinds.
	Kinds() *Kinds

	// Node returns a live object, or nil.
	Node(uid.UID) *Node

	// Lookup returns the uid of the live object with this key, or "".
	Lookup(kind *Kind, namespace, name string) uid.UID

	// Body returns the body of a live object.
	Body(*Node) *coppicev1.Body

	// Count counts the dependents that have references to owner with coordinates
	// in the range; with the zero Claims, all references to that uid. References
	// of one dependent that agree in uid and coordinates count once; the dependent
	// blocks if one of them does.
	Count(owner uid.UID, claims Claims) Counts

	// Users counts the objects that use n, with a use that is valid (B3.3). n need not be in
	// the state: it may be about to be created.
	Users(n *Node) Counts

	// Unresolved returns objects that have a use without uid of an object with these
	// coordinates, at most limit of them, ordered by uid. An empty namespace is any.
	Unresolved(c Coordinates, limit int) []uid.UID

	// UnresolvedCount counts the uses without uid with a claim in the range. It loads no
	// objects.
	UnresolvedCount(Claims) uint64

	// ClaimsOn returns the distinct coordinates that dependents claim for
	// owner, at most limit of them.
	ClaimsOn(owner uid.UID, limit int) []Claimed

	// Removed returns the revision at which the object with this uid was removed,
	// or zero if no removal is recorded, and whether it had these coordinates.
	Removed(uid.UID, Coordinates) (revision uint64, same bool)

	// AnyOf names one object of the kind, in one namespace unless that is empty; "" if there
	// is none.
	AnyOf(k *Kind, namespace string) string

	// AnyIn names one object in the namespace, "" if there is none.
	AnyIn(namespace string) string

	// Session returns an import session.
	Session(id string) Session

	// Pauses returns the times in which the realm stood still.
	Pauses() Pauses

	// Settings returns the realm settings.
	Settings() Settings

	// Brake returns the brake of a kind, and the number of its objects.
	Brake(*Kind) (b Brake, objects uint64)

	// Released reports whether the release of a brake lets the deletion of a live object
	// through.
	Released(uid.UID) bool
}

// Claims is a range of claimed coordinates: one namespace, or all of them.
type Claims struct {
	Coordinates
	AnyNamespace bool
}

// ValidClaims are the claims on n that are true: its group, kind and name,
// and its namespace, or any if n is cluster-scoped (A16).
func ValidClaims(n *Node) Claims {
	return Claims{Coordinates: n.Coordinates(), AnyNamespace: n.Namespace == ""}
}

// Contains reports whether c is in the range.
func (r Claims) Contains(c Coordinates) bool {
	if r.AnyNamespace {
		c.Namespace = r.Namespace
	}
	return c == r.Coordinates
}

// Counts counts dependents.
type Counts struct {
	// All dependents, and those that are terminating.
	All, Terminating uint64
	// Blocking are those with blockOwnerDeletion=true, terminating or not.
	Blocking uint64
	// Protected are those that are protected and have no other owner: the collector can
	// neither delete nor strip them.
	Protected uint64
}

// Pending returns the number of dependents that are not terminating. A foreground deletion
// of the owner waits for them, unless unknown owners keep them.
func (c Counts) Pending() uint64 { return c.All - c.Terminating }

// Actionable returns the number of dependents that the collector may still have to act on.
func (c Counts) Actionable() uint64 { return c.All - c.Terminating - c.Protected }

// Plus returns c + o.
func (c Counts) Plus(o Counts) Counts {
	return Counts{
		All: c.All + o.All, Terminating: c.Terminating + o.Terminating, Blocking: c.Blocking + o.Blocking, Protected: c.Protected + o.Protected,
	}
}

// Minus returns c - o.
func (c Counts) Minus(o Counts) Counts {
	return Counts{
		All: c.All - o.All, Terminating: c.Terminating - o.Terminating, Blocking: c.Blocking - o.Blocking, Protected: c.Protected - o.Protected,
	}
}

// CountsOf returns what the dependent n adds to the counts of one of its owners. blocking says
// whether a reference to that owner blocks. It is the definition of Counts.
func CountsOf(n *Node, blocking bool) Counts {
	c := Counts{All: 1}
	if blocking {
		c.Blocking = 1
	}
	switch {
	case n.Terminating():
		c.Terminating = 1
	case n.Protected() && !severalOwners(n.Owners):
		c.Protected = 1
	}
	return c
}

// severalOwners reports whether the references are to more than one owner.
func severalOwners(refs []OwnerReference) bool {
	for i := 1; i < len(refs); i++ {
		if !refs[i].SameOwner(&refs[0]) {
			return true
		}
	}
	return false
}

// Claimed is what dependents claim of an owner, and how many.
type Claimed struct {
	Coordinates
	Counts
	// LastImport is when the last of them was imported, zero if none was, and
	// FirstImport when the first was, zero if there is one that was not. Both
	// may remember dependents that are gone.
	LastImport, FirstImport Time
}

// Session is an import session. The zero Session is closed.
type Session struct {
	// Expires is when the session counts as closed unless it gets further commands;
	// zero for a session that is closed.
	Expires Time
}

// Dependents counts the dependents with a valid reference to n. Invalid
// references have no effect on the owner (S8).
func Dependents(v View, n *Node) Counts { return v.Count(n.UID, ValidClaims(n)) }
