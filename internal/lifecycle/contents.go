package lifecycle

import (
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/client/api"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Namespace objects and registrations of kinds are containers: their contents are the
// objects in the namespace, or of the kind. A container that is deleted keeps the contents
// finalizer until the last of these objects is removed, and no objects can be created in
// it meanwhile (A5.7, C052). A namespace need not have an object; these rules do not apply
// to such a namespace.

// FinalizerContents blocks the removal of a namespace or a kind until its contents are
// removed. Only the deletion sets it, and only Coppice removes it.
const FinalizerContents = Group + "/contents"

// IsNamespace reports whether the node is a Namespace object.
func IsNamespace(n *Node) bool { return n.Kind == "Namespace" && n.Group() == "" && n.Namespace == "" }

// Draining reports whether a container is being deleted, and its contents with it.
func (n *Node) Draining() bool { return n.Terminating() && n.HasFinalizer(FinalizerContents) }

// MaxRemaining is how many objects Remaining names.
const MaxRemaining = 10

// Remaining returns the uids of at most MaxRemaining of the contents of a container that is being deleted, so as to say
// what blocks its removal: first those that wait for an external finalizer or their agent, then others that are being
// deleted, then the rest, each in the given order.
func Remaining(contents []*Node) (uids []string) {
	rank := func(n *Node) int {
		external := func(f string) bool { return !IsBuiltinFinalizer(f) }
		switch {
		case n.Ending(), n.Terminating() && slices.ContainsFunc(n.Finalizers, external):
			return 0
		case n.Terminating():
			return 1
		}
		return 2
	}
	contents = slices.SortedStableFunc(slices.Values(contents), func(a, b *Node) int { return rank(a) - rank(b) })
	for _, n := range contents[:min(len(contents), MaxRemaining)] {
		uids = append(uids, n.UID.String())
	}
	return uids
}

// Contains reports whether n is in the namespace, or of the kind, that c stands for.
func Contains(v View, c, n *Node) bool {
	switch {
	case IsNamespace(c):
		return n.Namespace == c.Name
	case IsRegistration(c):
		k := v.Kinds().RegisteredBy(c)
		return k != nil && k == v.Kinds().OfNode(n)
	}
	return false
}

// ContainersOf returns those objects that stand for the namespace and for the kind of n, if
// they exist.
func ContainersOf(v View, n *Node) []*Node {
	var list []*Node
	if namespaces := v.Kinds().Of("", "Namespace"); namespaces != nil && n.Namespace != "" {
		if c := v.Node(v.Lookup(namespaces, "", n.Namespace)); c != nil {
			list = append(list, c)
		}
	}
	if kind := v.Kinds().OfNode(n); kind != nil && kind.UID != "" {
		if c := v.Node(kind.UID); c != nil && c.UID != n.UID {
			list = append(list, c)
		}
	}
	return list
}

// AnyContent names one object in a container, "" if there is none.
func AnyContent(v View, c *Node) string {
	switch {
	case IsNamespace(c):
		return v.AnyIn(c.Name)
	case IsRegistration(c):
		if k := v.Kinds().RegisteredBy(c); k != nil {
			return v.AnyOf(k, "")
		}
	}
	return ""
}

// Drain decides the contents finalizer's request to delete n because its container is
// being deleted. Unlike the collector it deletes objects that an owner keeps. Like the
// collector it honours the finalizers and the grace period of the object, and leaves
// protected objects (B2.3). The Pods of a namespace go first (A5.8). It waits for the end of the
// import session of the container, which may import contents, and policies that protect them (R2).
func Drain(ctx *Context, container, n *Node) []Event {
	return DrainAfter(ctx, container, n, PodsUntil(ctx.View, container))
}

// DrainAfter is Drain for many objects of one container, whose PodsUntil the caller has read.
func DrainAfter(ctx *Context, container, n *Node, pods Time) []Event {
	if n.Terminating() || n.Protected() || !container.Draining() || !Contains(ctx.View, container, n) ||
		ctx.Now < sessionEnd(ctx.View, container) ||
		WaitsForPods(ctx.View, n, pods, ctx.Now) {
		return nil
	}
	return braked(ctx, deletion(ctx.View, ctx.Now, n, ctx.Kinds().OfNode(n), request{
		policy: collectedBy(ctx, n), version: n.Version(), reason: coppicev1.Reason_REASON_CONTAINER, cause: container.DeletionRevision,
	}))
}

// withLaterContents adds the contents finalizer to the list of a container that an import session
// marks: the session may import its contents later, and they are deleted with it in any order (R2).
func withLaterContents(c *Node, list []string) []string {
	if c.ImportSession == "" || !IsNamespace(c) && !IsRegistration(c) || slices.Contains(list, FinalizerContents) {
		return list
	}
	return slices.Concat(list, []string{FinalizerContents})
}

// withContents adds the contents finalizer to the list of a container that is
// marked, if something is in it.
func withContents(v View, c *Node, list []string) []string {
	if slices.Contains(list, FinalizerContents) || AnyContent(v, c) == "" {
		return list
	}
	return slices.Concat(list, []string{FinalizerContents})
}

// keepContents adds the contents finalizer to the list that a client sends for a container
// that has it: a client that has not seen the finalizer does not intend to remove it.
func keepContents(was *Node, list []string) []string {
	if !was.HasFinalizer(FinalizerContents) || slices.Contains(list, FinalizerContents) {
		return nonEmpty(list)
	}
	return slices.Concat(list, []string{FinalizerContents})
}

// validateContentsFinalizer refuses the contents finalizer from clients. was is the node
// before an update, nil for a creation.
func validateContentsFinalizer(was *Node, list []string) []Cause {
	i := slices.Index(list, FinalizerContents)
	if i < 0 || was != nil && was.HasFinalizer(FinalizerContents) {
		return nil
	}
	return []Cause{forbidden(fmt.Sprintf("metadata.finalizers[%d]", i),
		FinalizerContents+" is set by the deletion of a namespace or kind that has objects")}
}

// checkContentsGone refuses to take the contents finalizer from a container with
// objects: those of a kind could not be read without it.
func checkContentsGone(v View, at Key, n *Node, finalizer string) *Error {
	if finalizer != FinalizerContents || !n.HasFinalizer(finalizer) {
		return nil
	}
	if any := AnyContent(v, n); any != "" {
		return errConflict(at, "finalizer %s goes with the last object; there still is %s", finalizer, any)
	}
	return nil
}

// checkStays refuses to create an object whose kind or namespace is being deleted. The refusal
// for the namespace is worded as Kubernetes'. An import session may create objects in containers
// that an import has brought, which are drained when its session ends: see mayReceive.
func checkStays(ctx *Context, at Key, session string) *Error {
	v := ctx.View
	if n := v.Node(at.Kind.UID); n != nil && n.Terminating() && !mayReceive(ctx, n, session) {
		return at.err(api.ErrMethodNotAllowed, "%s cannot be created: its kind %s is being deleted", at, n.Name)
	}
	namespaces := v.Kinds().Of("", "Namespace")
	if at.Namespace == "" || namespaces == nil {
		return nil
	}
	if n := v.Node(v.Lookup(namespaces, "", at.Namespace)); n != nil && n.Terminating() && !mayReceive(ctx, n, session) {
		e := at.err(api.ErrForbidden, "%s is forbidden: unable to create new content in namespace %s because it is being terminated", at, at.Namespace)
		e.Causes = []Cause{{
			Reason: api.CauseNamespaceTerminating, Field: "metadata.namespace", Message: fmt.Sprintf("namespace %s is being terminated", at.Namespace),
		}}
		return e
	}
	return nil
}

// mayReceive reports whether an import session may create objects in a container that is being
// deleted: an import has brought the container, and its session is open, so that nothing drains it
// yet. It need not be the same session, because an import that was interrupted is repeated in another.
func mayReceive(ctx *Context, c *Node, session string) bool {
	return session != "" && c.Draining() && ctx.Now < sessionEnd(ctx.View, c)
}
