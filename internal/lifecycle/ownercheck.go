package lifecycle

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// maxOwnersNamed is the maximum number of owners that a warning or a refusal names.
const maxOwnersNamed = 10

// OwnersUnnamed takes the place of the warnings of checkOwners in a reply that has no room for them.
const OwnersUnnamed = "ownerReferences: no such owner"

const ownersField = "metadata.ownerReferences"

// OwnersWarned reports whether a warning is one of owners that do not keep an object that was written.
func OwnersWarned(warning string) bool {
	return warning == OwnersUnnamed || strings.HasPrefix(warning, ownersField+": ")
}

// checkOwners examines the owners that a write adds to n. was is the object before, nil for a creation. It returns a
// warning for each class of them that does not keep the object (A12.6): manifests that were exported name the owners'
// old uids, and the objects would be collected right after they were created. With ctx.StrictOwners the write is refused.
// The owners of an object that is being deleted do not matter.
//
// The texts name no objects but those that the references name: the actor may not be permitted to read others.
func checkOwners(ctx *Context, at Key, was, n *Node) ([]string, *Error) {
	if n.Terminating() || was != nil && SameOwners(was, n) || allKeep(ctx.View, n) {
		return nil, nil
	}
	var before []OwnerReference
	if was != nil {
		before = was.Owners
	}
	if n.ImportSession != "" {
		later := *n
		later.Revision = math.MaxUint64 // of this write
		n = &later
	}
	k := ownerCheck{v: ctx.View, n: n, by: NewClassifier(ctx.View, n, ctx.Now)}
	had := ClaimedBy(before)
	EachOwner(n.Owners, func(r *OwnerReference, _ bool) {
		if had(r) {
			k.others = append(k.others, r)
		} else {
			k.add(r)
		}
	})
	switch {
	case k.count == 0:
		return nil, nil
	case ctx.StrictOwners:
		return nil, k.refusal(at)
	}
	return k.warnings(), nil
}

// allKeep reports whether all owners of n are solid. They are, for most writes.
func allKeep(v View, n *Node) bool {
	for i := range n.Owners {
		r := &n.Owners[i]
		if owner := v.Node(r.UID); owner == nil || !Fits(n, r, owner) || owner.Waiting() {
			return false
		}
	}
	return true
}

// ownerCheck has what checkOwners finds: the owners that do not keep n.
type ownerCheck struct {
	v     View
	n     *Node
	by    Classifier
	found [Unknown + 1]notKept // by class
	count int

	solid   bool              // an owner keeps n; before warnings, a new one
	unknown bool              // one of others is unknown, in warnings
	others  []*OwnerReference // that n had before
}

// notKept are owners of one class.
type notKept struct {
	count int
	named []string // the first of them, with the reason
	until Time     // when the last of them counts as absent; Never if the passage of time does not decide
	// imported: an import could bring one of them.
	imported bool
}

func (k *ownerCheck) add(r *OwnerReference) {
	c := k.by.Classify(r)
	if c.Class == Solid {
		k.solid = true
		return
	}
	k.count++
	f := &k.found[c.Class]
	f.count++
	until := c.Until
	if c.why != whyGrace {
		until = Never // and not the end of an import session, which a client may end before
	}
	f.until = max(f.until, until)
	f.imported = f.imported || c.why == whyNeverSeen || c.why == whyRemoved || c.why == whyGrace
	if len(f.named) < maxOwnersNamed {
		name := ownerText(r)
		if why := k.why(r, c); why != "" {
			name += " (" + why + ")"
		}
		f.named = append(f.named, name)
	}
}

// movedText says why an owner that has moved to another group is not known to exist, and what to do.
func movedText(owner *Node) string {
	return "an object of this kind and name has the uid, in another group; " + rewrite(owner)
}

// ownerText returns the kind, the name and the uid of an owner.
func ownerText(r *OwnerReference) string {
	return fmt.Sprintf("%s %q with uid %s", ownerKind(r.Kind, r.Group()), r.Name, r.UID)
}

// ownerKind returns a kind with its group, as warnings have it.
func ownerKind(kind, group string) string {
	if group == "" {
		return kind
	}
	return kind + "." + group
}

// why returns why an owner does not keep the object, and the uid of the object that has its name now; "" if the
// class says it all.
func (k *ownerCheck) why(r *OwnerReference, c Classification) string {
	switch c.why {
	case whyMismatch:
		if c.Warning(k.v, k.n, r) == WarnInvalidNamespace {
			return "the owner is in another namespace"
		}
		if k.v.Node(r.UID) == nil {
			return "the uid was that of another object"
		}
		return "the uid belongs to another object"
	case whyMoved:
		return movedText(k.v.Node(r.UID))
	case whyNeverSeen, whyGrace, whyRemoved:
		kind, namespace := k.v.Kinds().Of(r.Group(), r.Kind), ""
		if kind == nil {
			break
		}
		if kind.Namespaced() {
			namespace = k.n.Namespace
		}
		if u := k.v.Lookup(kind, namespace, r.Name); u != "" {
			return fmt.Sprintf("the object with this name has uid %s", u)
		}
		if c.why == whyNeverSeen {
			return ""
		}
	case whyWaiting:
		return ""
	}
	return c.Why(k.v, k.n, r)
}

func (f *notKept) String() string {
	list := strings.Join(f.named, ", ")
	if more := f.count - len(f.named); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// advice returns what to do about owners that do not exist.
func (f *notKept) advice() string {
	if !f.imported {
		return ""
	}
	return "; to keep the uids of an export, use the verb import (coppice import)"
}

func (k *ownerCheck) warnings() []string {
	for _, r := range k.others {
		switch k.by.Classify(r).Class {
		case Solid:
			k.solid = true
		case Unknown:
			k.unknown = true
		}
	}
	var list []string
	if f := &k.found[Dangling]; f.count > 0 {
		list = append(list, fmt.Sprintf("%s: no such owner: %s; %s%s", ownersField, f, k.consequence(f), f.advice()))
	}
	if f := &k.found[Waiting]; f.count > 0 {
		list = append(list, fmt.Sprintf("%s: being deleted in the foreground: %s; %s", ownersField, f, k.consequence(f)))
	}
	if f := &k.found[Unknown]; f.count > 0 {
		list = append(list, fmt.Sprintf("%s: not known to exist: %s; %s%s", ownersField, f, k.stay(f), f.advice()))
	}
	return list
}

// consequence returns what becomes of the object because of these owners, which are dangling or waiting.
func (k *ownerCheck) consequence(f *notKept) string {
	switch {
	case k.solid && f.count == 1:
		return "other owners keep the object, and this reference will be removed"
	case k.solid:
		return "other owners keep the object, and these references will be removed"
	case k.unknown || k.found[Unknown].count > 0:
		return k.staysUntil("it is known whether its other owners exist")
	case k.n.Protected():
		return "the object stays only while it is protected"
	case Braked(k.v, k.n):
		return "no owner keeps the object, which will be deleted when the brake of its kind is released"
	}
	return "no owner keeps the object, which will be deleted"
}

// stay returns what becomes of the object because of owners that are unknown.
func (k *ownerCheck) stay(f *notKept) string {
	switch {
	case k.solid:
		return "other owners keep the object"
	case f.until == Never:
		return k.staysUntil("this changes")
	case k.unknown:
		return k.staysUntil("it is known whether its other owners exist")
	}
	return k.staysUntil(f.until.Time().Format(time.RFC3339) + ", when owners that have not appeared count as absent")
}

func (k *ownerCheck) staysUntil(end string) string {
	if k.n.Protected() {
		end += ", and while it is protected"
	}
	return "the object stays until " + end
}

func (k *ownerCheck) refusal(at Key) *Error {
	var causes []Cause
	for class := range k.found {
		f := &k.found[class]
		if f.count == 0 {
			continue
		}
		why := map[Class]string{
			Dangling: "no such owner", Waiting: "being deleted in the foreground", Unknown: "not known to exist",
		}[Class(class)]
		causes = append(causes, Cause{
			Reason: "FieldValueNotFound", Field: ownersField, Message: fmt.Sprintf("Not found: %s: %s%s", why, f, f.advice()),
		})
	}
	e := invalid(at, causes)
	e.Message += "; refused by strictOwners (--strict-owners)"
	return e
}
