package tree

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Doomed returns the uids of the objects of a family that are gone after roots were
// deleted with a policy and all finalizers and agents are done. It is a forecast:
// the writer decides, on the state at that time.
func (f *Family) Doomed(roots []string, policy string) map[string]bool {
	goes := map[string]bool{}
	for _, uid := range roots {
		if f.Nodes[uid] != nil {
			goes[uid] = true
		}
	}
	if policy == lifecycle.Orphan {
		return goes
	}
	for queue := slices.Clone(roots); len(queue) > 0; {
		uid := queue[0]
		queue = queue[1:]
		if !slices.Contains(roots, uid) && f.keepsDependents(f.Nodes[uid], policy) {
			continue
		}
		for _, below := range f.Below[uid] {
			if !goes[below] && f.follows(f.Nodes[below], goes, roots, policy) {
				goes[below] = true
				queue = append(queue, below)
			}
		}
	}
	return goes
}

// follows reports whether an object is deleted when the objects in goes are: it is
// terminating already, or it is not protected and no other owner keeps it. An unknown owner
// keeps it.
func (f *Family) follows(n *coppicev1.GraphNode, goes map[string]bool, roots []string, policy string) bool {
	m := n.GetObject().GetMetadata()
	switch {
	case m.GetDeletionTimestamp() != nil:
		return true
	case m.GetProtection() != nil:
		return false
	}
	for i, r := range m.GetOwnerReferences() {
		switch n.GetOwners()[i].GetClass() {
		case coppicev1.OwnerClass_OWNER_CLASS_DANGLING, coppicev1.OwnerClass_OWNER_CLASS_WAITING:
		case coppicev1.OwnerClass_OWNER_CLASS_SOLID:
			owner := f.Nodes[r.GetUid()]
			if !goes[r.GetUid()] || !slices.Contains(roots, r.GetUid()) && f.keepsDependents(owner, policy) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// keepsDependents reports whether an object that is collected orphans its dependents:
// it has the orphan finalizer, which applies (A12.9) unless a foreground deletion
// overrides it (A12.8).
func (f *Family) keepsDependents(n *coppicev1.GraphNode, policy string) bool {
	m := n.GetObject().GetMetadata()
	if !slices.Contains(m.GetFinalizers(), lifecycle.FinalizerOrphan) {
		return false
	}
	return m.GetDeletionTimestamp() != nil || policy != lifecycle.Foreground
}
