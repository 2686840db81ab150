// Package chart arranges objects as a picture: a forest of owners with a position for each object that is shown. All of it
// is a function of the graph and of what the page asks for, linear in the number of objects.
//
// An object is below the first of its owners that is present and part of the picture. If objects own each other, the one with
// the lowest number is on top; in a picture of a root, the root. What has no owner in the picture is below its namespace, if
// there are several.
//
// The order of what is below the same owner is that of the numbers of objects, which do not change while an object exists.
// Families keep room for some more, so that a new object moves few others.
package chart

import "github.com/coppice-gc/coppice/internal/uid"

// State is the state of an object, for its colour and shape.
type State uint8

// The states, in the order in which Hidden prefers them: the last wins.
const (
	Present State = iota
	Protected
	Terminating
	UnknownOwner
	Garbage
	Blocked
	States // how many there are
)

// Graph has the objects of a realm by their numbers: from 1 up to the length of Places, without it.
type Graph struct {
	// Places is, for each number, the index in Kinds; 0 if no object has the number.
	Places []uint32
	States []State
	// Owners are the numbers of the present owners of all objects, each once: those of object i are
	// Owners[First[i]:First[i+1]], in the order of its references.
	First  []uint32
	Owners []uint32
	// Labelled: the object matches the labels of the scope; nil if all do.
	Labelled []bool
	// Kinds are the resources and namespaces of Places. The first is empty.
	Kinds []Kind
	// Revision is that of the realm; Loading says that objects are still being read.
	Revision uint64
	Loading  bool
}

// Kind is a resource in a namespace; of objects that are in none, Namespace is empty.
type Kind struct {
	Resource, Namespace string
}

// Scope says which objects a picture has: those that match, and all that depends on them.
type Scope struct {
	// Namespace is that of objects; nil matches all.
	Namespace *string
	// Root is the number of an object; 0 matches all. Roots are those of objects, if there are several.
	Root  uint32
	Roots []uint32
}

// Ask is what a page wants to see.
type Ask struct {
	Scope Scope
	// Open and Shut are the keys of nodes whose direct dependents are shown, or are not; both against the default, which is
	// to show all levels that fit in Fit. What is above an open node is open, too. Shut wins. Keys that the picture does not have
	// are ignored.
	Open, Shut []Key
	// Show are objects whose owners are open, even those of Shut. Where not everything fits, these objects come first, then those
	// of Open.
	Show []uint32
	// Fit is how many nodes are shown by default, and Most how many at most; each is at least 1.
	Fit, Most int
	// MostOthers is how many of Others are shown at most; 0 for all.
	MostOthers int
}

// Key names a node: an object, or what stands for several.
type Key struct {
	Object    uint32 // its number; 0 if the node stands for several
	Namespace string // of a group
	Resource  string // of a group; empty if it is the group of a namespace
	Group     bool
	// Rest is set for the node that stands for those of a parent that did not fit; the other fields are then those of the parent.
	Rest bool
}

// Picture is what is shown.
type Picture struct {
	// Nodes have their parents before them.
	Nodes []Node
	// Others are the references to owners other than the parent, as indexes in Nodes: the owner and the dependent. Of what is
	// not shown, the nearest that is shown above it has them; each pair is there once.
	Others [][2]int32
	// OthersLeft counts those that are left out, with those that are there more than once.
	OthersLeft int
	// Objects is how many objects the scope has, and Totals how many of them have each state.
	Objects int
	Totals  [States]int
	// Depth is the number of levels that are shown by default: 0 if not even those on top fit. Levels is how many the scope has,
	// groups included.
	Depth, Levels int
	// Full: what is on top does not fit in Fit, or what was to be shown does not fit in Most. Some of what does not fit is closed,
	// or a node with the Key Rest stands for it.
	Full bool
	// Outside are those of Show that the scope does not have.
	Outside []uint32
	// Width and Height bound the positions: from 0 on.
	Width, Height float32
}

// Node is an object that is shown, or stands for several.
type Node struct {
	Key    Key
	Parent int32 // index in Nodes; -1 if there is none
	X, Y   float32
	// Children counts what is directly below it, and Below all objects below it, shown or not. A node with the Key Rest stands for
	// its Children, and they are counted in Below.
	Children, Below uint32
	// Place is that of the object; 0 of groups.
	Place uint32
	State State
	// Hidden is the most severe state of all objects below it that are not shown, also of those in a node below it. A node with the
	// Key Rest has that of the objects it stands for.
	Hidden State
	// Closed: there are objects below it, and they are not shown.
	Closed bool
	// Line: a line leads to it from its parent. Only the first row of a block of dependents, of more than 200 closed owners and of
	// all that is below a group has lines.
	Line bool
}

// Named is what names an object.
type Named struct {
	Name string
	UID  uid.UID // empty if the object does not exist any more
}
