package tree

import (
	"cmp"
	"maps"
	"slices"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// UIDOf returns the uid of an object.
func UIDOf(n *coppicev1.GraphNode) string { return n.GetObject().GetMetadata().GetUid() }

// Family is a set of objects and the owner references between them.
type Family struct {
	Nodes map[string]*coppicev1.GraphNode // by uid
	// Below has, by the uid of an owner, the uids of the objects with a valid reference to it.
	Below map[string][]string
	// Truncated is true if objects are missing.
	Truncated bool
}

// NewFamily returns a family without objects.
func NewFamily() *Family {
	return &Family{Nodes: map[string]*coppicev1.GraphNode{}, Below: map[string][]string{}}
}

// List returns the objects, ordered by key and uid.
func (f *Family) List() []*coppicev1.GraphNode {
	return slices.SortedFunc(maps.Values(f.Nodes), func(a, b *coppicev1.GraphNode) int {
		return cmp.Or(cmp.Compare(KeyOfNode(a), KeyOfNode(b)), cmp.Compare(UIDOf(a), UIDOf(b)))
	})
}

// Add adds an object, once.
func (f *Family) Add(n *coppicev1.GraphNode) {
	if f.Nodes[UIDOf(n)] != nil {
		return
	}
	f.Nodes[UIDOf(n)] = n
	for i, r := range n.GetObject().GetMetadata().GetOwnerReferences() {
		// References that repeat a uid count once.
		below := f.Below[r.GetUid()]
		if again := len(below) > 0 && below[len(below)-1] == UIDOf(n); Present(n.GetOwners()[i].GetClass()) && !again {
			f.Below[r.GetUid()] = append(below, UIDOf(n))
		}
	}
}

// FamilyIn returns the objects of a reply.
func FamilyIn(reply *coppicev1.ResolveObjectsReply) *Family {
	f := NewFamily()
	for _, n := range reply.GetNodes() {
		f.Add(n)
	}
	f.Truncated = reply.GetTruncated()
	return f
}

// Whole reports whether all owners of all objects are among them.
func (f *Family) Whole() bool {
	for _, n := range f.Nodes {
		for _, r := range n.GetObject().GetMetadata().GetOwnerReferences() {
			if f.Nodes[r.GetUid()] == nil {
				return false
			}
		}
	}
	return true
}

// Complete reports whether all dependents of an object are known.
func (f *Family) Complete(n *coppicev1.GraphNode) bool {
	return uint64(len(f.Below[UIDOf(n)])) >= n.GetDependents()
}

// Present reports whether a reference means an owner that is there.
func Present(c coppicev1.OwnerClass) bool {
	return c == coppicev1.OwnerClass_OWNER_CLASS_SOLID || c == coppicev1.OwnerClass_OWNER_CLASS_WAITING
}
