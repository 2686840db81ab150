package lifecycle

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/uid"
)

// checkImported returns warnings of owner references whose uid belongs to an object that they are not true of: those of n,
// which is imported, and those of other objects to n. It does not warn of owners that do not exist, because they may be
// imported after n. Until the import session ends, no imported object is collected because of such a reference.
func checkImported(ctx *Context, was, n *Node) (warnings []string) {
	if !n.Terminating() && (was == nil || !was.Terminating()) {
		warnings = mistaken(ctx, n)
	}
	if all := ctx.Count(n.UID, Claims{}).Actionable(); all == 0 || all == Dependents(ctx.View, n).Actionable() {
		return warnings
	}
	valid := ValidClaims(n)
	for _, c := range ctx.ClaimsOn(n.UID, maxClaims) {
		kind := ctx.Kinds().Of(c.Group, c.Kind)
		unresolvable := kind == nil || kind.Namespaced() && c.Namespace == ""
		moved := c.movedTo(n)
		if c.Actionable() == 0 || valid.Contains(c.Coordinates) || unresolvable && !moved {
			continue
		}
		name := fmt.Sprintf("%s %q", ownerKind(c.Kind, c.Group), c.Name)
		if n.Namespace != "" && c.Namespace != n.Namespace {
			name = "an object of another namespace" // which the actor may not be permitted to read
		}
		who, their := "1 object names", "its owner references"
		if c.Actionable() > 1 {
			who, their = fmt.Sprintf("%d objects name", c.Actionable()), "their owner references"
		}
		text := fmt.Sprintf("metadata.uid: %s this uid in %s as that of %s", who, their, name)
		if moved {
			text += ", in another group; such references are unknown; write apiVersion " + n.APIVersion + " in them"
		} else {
			text += ", which it is not; those that no other owner keeps will be deleted"
		}
		warnings = append(warnings, text)
	}
	return warnings
}

// mistaken returns warnings of the references of n whose uid belongs to another object, or to their owner in another group.
func mistaken(ctx *Context, n *Node) []string {
	if allKeep(ctx.View, n) {
		return nil
	}
	as := *n
	as.ImportSession = "" // the classes after its end
	k := ownerCheck{v: ctx.View, n: &as, by: NewClassifier(ctx.View, &as, ctx.Now)}
	EachOwner(as.Owners, func(r *OwnerReference, _ bool) {
		switch c := k.by.Classify(r); {
		case c.why == whyMoved, c.why == whyMismatch:
			k.add(r)
		case c.Class == Solid:
			k.solid = true
		default:
			k.unknown = true // it may be imported
		}
	})
	return k.warnings()
}

// MistakenAmong returns warnings of the references of n whose uid belongs to one of the objects of an import, by uid, and that
// are not true of it: for a dry run, which stores none of them.
func MistakenAmong(n *Node, among map[uid.UID]*Node) (warnings []string) {
	if n.Terminating() {
		return nil
	}
	EachOwner(n.Owners, func(r *OwnerReference, _ bool) {
		switch owner := among[r.UID]; {
		case owner == nil, Fits(n, r, owner):
		case moved(n, r, owner):
			warnings = append(warnings, fmt.Sprintf("%s: not known to exist: %s (%s)", ownersField, ownerText(r), movedText(owner)))
		default:
			warnings = append(warnings, fmt.Sprintf("%s: no such owner: %s (%s)", ownersField, ownerText(r), "the uid belongs to another object"))
		}
	})
	return warnings
}
