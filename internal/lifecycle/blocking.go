package lifecycle

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
)

// An object with a reference that has blockOwnerDeletion delays a foreground deletion of the owner. If the realm
// settings say so, an actor needs permission to write such a reference (B11), as with Kubernetes' admission plugin
// OwnerReferencesPermissionEnforcement.

// CheckBlocking refuses the outcome of a command if an object that it writes newly has blockOwnerDeletion for an owner
// whose deletion the actor may not block, and the realm settings demand permission (B11.1). may says whether the actor may block
// the deletion of objects of a kind in a namespace; "" for objects without one, and nil for a kind that is not
// registered.
//
// The text names no objects but those that the actor's own manifest names.
func CheckBlocking(ctx *Context, out *Outcome, may func(kind *Kind, namespace string) bool) *Error {
	if ctx.Settings().BlockOwnerDeletion != BlockedIfPermitted {
		return nil
	}
	for i := range out.Events {
		e := &out.Events[i]
		if e.Type != ObjectCreated && e.Type != ObjectUpdated {
			continue
		}
		was, n := ctx.Node(e.UID), e.Object.Node
		if was != nil && SameOwners(was, n) {
			continue
		}
		var denied []string
		count := 0
		eachBlocked(was, n, func(r *OwnerReference) {
			kind, namespace := ctx.Kinds().Of(r.Group(), r.Kind), n.Namespace
			if kind != nil && !kind.Namespaced() {
				namespace = ""
			}
			if may(kind, namespace) {
				return
			}
			if count++; len(denied) < maxOwnersNamed {
				denied = append(denied, blockedText(r, kind, namespace))
			}
		})
		if count > 0 {
			return errBlocking(ctx, n, denied, count)
		}
	}
	return nil
}

// eachBlocked calls visit for each owner of n whose deletion n blocks, by its references, and did not block before. was
// is the object before, nil for a creation (B11.2).
func eachBlocked(was, n *Node, visit func(*OwnerReference)) {
	var before []OwnerReference
	if was != nil {
		for _, r := range was.Owners {
			if r.Blocking == True {
				before = append(before, r)
			}
		}
	}
	blocked := ClaimedBy(before)
	EachOwner(n.Owners, func(r *OwnerReference, blocking bool) {
		if blocking && !blocked(r) {
			visit(r)
		}
	})
}

// blockedText returns the kind and the name of an owner, and what permission is missing.
func blockedText(r *OwnerReference, kind *Kind, namespace string) string {
	owner := fmt.Sprintf("%s %q", ownerKind(r.Kind, r.Group()), r.Name)
	switch {
	case kind == nil:
		return owner + " (all kinds in all namespaces: its kind is not registered)"
	case !kind.Namespaced():
		return fmt.Sprintf("%s (%s)", owner, kind.Resource())
	case namespace == "": // the reference of an object without namespace
		return fmt.Sprintf("%s (%s in all namespaces)", owner, kind.Resource())
	}
	return fmt.Sprintf("%s (%s in namespace %q)", owner, kind.Resource(), namespace)
}

func errBlocking(ctx *Context, n *Node, denied []string, count int) *Error {
	owners := strings.Join(denied, ", ")
	if more := count - len(denied); more > 0 {
		owners += fmt.Sprintf(" and %d more", more)
	}
	at := KeyOf(ctx.View, n)
	return at.err(api.ErrForbidden, "%s: user %s may not set blockOwnerDeletion for %s: the realm setting blockOwnerDeletion is %q, and no rule of the users file "+
		"has the verb delete or blockowner there; write blockOwnerDeletion: false, or have such a rule added", at, ctx.Actor, owners, BlockedIfPermitted)
}

// CheckUsesSeen refuses the outcome of a command if an object that it writes newly uses an object that the actor may not get: the
// server would say whether that exists, and its deletion would wait for the user (B3). may says whether the actor may get
// objects of a kind in a namespace; "" for objects without one, and nil for a kind that is not registered.
func CheckUsesSeen(ctx *Context, out *Outcome, may func(kind *Kind, namespace string) bool) *Error {
	for i := range out.Events {
		e := &out.Events[i]
		if e.Type != ObjectCreated && e.Type != ObjectUpdated || len(e.Object.Uses) == 0 {
			continue
		}
		before := map[Coordinates]bool{}
		if was := ctx.Node(e.UID); was != nil {
			for i := range was.Uses {
				before[was.Use(&was.Uses[i])] = true
			}
		}
		n := e.Object.Node
		for i := range n.Uses {
			at := n.Use(&n.Uses[i])
			kind, namespace := ctx.Kinds().Of(at.Group, at.Kind), ""
			if kind == nil || kind.Namespaced() {
				namespace = at.Namespace
			}
			if !before[at] && !may(kind, namespace) {
				of := KeyOf(ctx.View, n)
				return of.err(api.ErrForbidden, "%s: user %s may not use %s %q: no rule of the users file lets it get such objects; "+
					"leave the use out, or have a rule with the verb get added", of, ctx.Actor, ownerKind(at.Kind, at.Group), at.Name)
			}
		}
	}
	return nil
}
