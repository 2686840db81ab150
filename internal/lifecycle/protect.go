package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A protected object is not deleted: every DELETE of it is refused, and the collector and
// the drain of a namespace or kind leave it (B2). Owner references may still be removed
// from it. Only Protect, Unprotect and policies change the protection. A terminating object
// is never protected.

// Protection says who protects an object, and why. It is immutable, because nodes share it.
type Protection struct {
	// Reason and Actor are those of the client that protected the object, at Time. They
	// are empty if policies alone protect it.
	Reason, Actor string
	Time          Time
	// Policies are the names of the protection policies that cover the object, sorted.
	Policies []string
}

// maxReason is the maximum size of the reason for a protection, in bytes.
const maxReason = 1024

// Protected reports whether no DELETE removes the object (B2.1).
func (n *Node) Protected() bool { return n.Protection != nil }

// Direct reports whether a client protects the object, and not policies alone.
func (p *Protection) Direct() bool { return p != nil && p.Reason != "" }

// String says who protects an object, since when, and why.
func (p *Protection) String() string {
	if p == nil {
		return ""
	}
	var said []string
	if p.Direct() {
		said = append(said, fmt.Sprintf("%s since %s: %s", p.Actor, p.Time.Time().Format(time.RFC3339), p.Reason))
	}
	if len(p.Policies) > 0 {
		said = append(said, "the protection policy "+strings.Join(p.Policies, ", "))
	}
	return strings.Join(said, "; and by ")
}

func (p *Protection) equal(o *Protection) bool {
	return p == o || p != nil && o != nil &&
		p.Reason == o.Reason && p.Actor == o.Actor && p.Time == o.Time && slices.Equal(p.Policies, o.Policies)
}

// api returns the protection as clients see it.
func (p *Protection) api() *coppicev1.Protection {
	if p == nil {
		return nil
	}
	return &coppicev1.Protection{Reason: p.Reason, Actor: p.Actor, Time: p.Time.proto(), Policies: p.Policies}
}

// errProtected refuses a deletion of a protected object (B2.1).
func errProtected(v View, at Key, n *Node) *Error {
	e := at.err(api.ErrForbidden, "%s is protected by %s; it is not deleted until its protection is removed", at, ProtectedBy(v, n))
	e.UID = n.UID.String()
	e.Causes = []Cause{{Reason: api.CauseObjectProtected, Field: "metadata.protection", Message: ProtectedBy(v, n)}}
	return e
}

// CheckReason refuses a reason for a protection, or for a forced removal, that the log
// cannot record.
func CheckReason(reason string) *Error {
	switch {
	case strings.TrimSpace(reason) == "":
		return ErrBadRequest("reason: it is required, and is recorded in the log")
	case len(reason) > maxReason:
		return ErrBadRequest("reason: it has %d bytes, at most %d", len(reason), maxReason)
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return ErrBadRequest("reason: it is not one line of UTF-8")
	}
	return nil
}

// Protect decides the protection of an object by an actor (B2.5). To protect it again with
// the same reason changes nothing; another reason, or another actor, replaces the former.
func Protect(ctx *Context, at Key, actor, reason string, want *coppicev1.Preconditions) (*Outcome, *Error) {
	if err := CheckReason(reason); err != nil {
		return nil, err
	}
	n, err := protectable(ctx, at, want)
	if err != nil {
		return nil, err
	}
	switch {
	case n.Terminating():
		return nil, errConflict(at, "it is being deleted since revision %d, which cannot be undone; protect an object before its deletion", n.DeletionRevision)
	case n.Uninitialized():
		return nil, errConflict(at, "it waits for its initializers, and is deleted if one of them fails; protect it when it is initialized")
	}
	if was := n.Protection; was.Direct() && was.Reason == reason && was.Actor == actor {
		out := unchanged(ctx, n)
		out.BodyOptional = true
		return out, nil
	}
	p := &Protection{Reason: reason, Actor: actor, Time: ctx.Now}
	if n.Protection != nil {
		p.Policies = n.Protection.Policies
	}
	out := protection(ctx, n, p)
	out.BodyOptional = true
	return out, nil
}

// Unprotect decides the removal of the protection of an object (B2.6). It changes nothing if
// the object is not protected. The outcome has a warning if the collector deletes the object
// now.
func Unprotect(ctx *Context, at Key, want *coppicev1.Preconditions) (*Outcome, *Error) {
	n, err := protectable(ctx, at, want)
	if err != nil {
		return nil, err
	}
	was := n.Protection
	if was == nil {
		out := unchanged(ctx, n)
		out.BodyOptional = true
		return out, nil
	}
	// Only a policy needs the labels.
	optional := !slices.ContainsFunc(ctx.Kinds().policies, func(p *Policy) bool {
		return slices.Contains(was.Policies, p.Name) && p.Reaches(ctx.View, ctx.Kinds().OfNode(n))
	})
	switch left := (&Protection{Policies: was.Policies}).only(covering(ctx, n)); {
	case left != nil && !was.Direct() && len(left.Policies) == len(was.Policies):
		return nil, errConflict(at, "it is protected by %s; change the policy, or first the labels of the object so that the policy does not cover it", ProtectedBy(ctx.View, n))
	case left != nil:
		out := protection(ctx, n, left)
		out.Warnings = []string{fmt.Sprintf("%s is still protected by %s", at, ProtectedBy(ctx.View, out.Events[0].Object.Node))}
		return out, nil
	}
	out := protection(ctx, n, nil)
	out.BodyOptional = optional
	if j := Evaluate(ctx.View, n, ctx.Now); j.Decision == KeepProtected {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s is collected now: no owner keeps it", at))
	}
	if c := drainingContainer(ctx.View, n); c != nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s is deleted now: %s is being deleted", at, KeyOf(ctx.View, c)))
	}
	return out, nil
}

// protectable finds the object of a request to change its protection.
func protectable(ctx *Context, at Key, want *coppicev1.Preconditions) (*Node, *Error) {
	n, err := Find(ctx.View, at)
	if err != nil {
		return nil, err
	}
	return n, checkPreconditions(at, n, want)
}

// unchanged is the outcome of a command that changes nothing.
func unchanged(ctx *Context, n *Node) *Outcome {
	return &Outcome{Code: 200, Object: Object{Node: n, Body: ctx.Body(n)}}
}

// protection is the outcome of a command that changes the protection of n.
func protection(ctx *Context, n *Node, p *Protection) *Outcome {
	out := unchanged(ctx, n)
	out.Events = []Event{protectionEvent(n, p)}
	return out
}

// protectionEvent returns the event that changes the protection of n. It does not count as a
// change of the desired state: the generation stays.
func protectionEvent(n *Node, p *Protection) Event {
	node := *n
	node.Protection = p
	reason := coppicev1.Reason_REASON_PROTECTED
	if p == nil || n.Protection != nil && len(p.Policies) <= len(n.Protection.Policies) && !p.Direct() {
		reason = coppicev1.Reason_REASON_UNPROTECTED
	}
	return Event{Type: ObjectUpdated, UID: n.UID, Reason: reason, Object: Object{Node: &node}}
}

// ConditionProtected is the type of the condition of an object whose deletion waits for protected
// objects.
const ConditionProtected = "ProtectedObjectsRemain"

// MaxProtectedNamed is how many of these objects its message names.
const MaxProtectedNamed = 10

// ProtectedConditions returns the condition of an object whose deletion waits for these protected
// objects (B2.3), at most MaxProtectedNamed; none if there are none.
func ProtectedConditions(named []string) []*coppicev1.Condition {
	if len(named) == 0 {
		return nil
	}
	message := "the deletion waits for protected objects: " + strings.Join(named, ", ")
	if len(named) == MaxProtectedNamed {
		message += "; there may be more"
	}
	return []*coppicev1.Condition{{Type: ConditionProtected, Status: "True", Reason: "Protected", Message: message}}
}

// drainingContainer returns the namespace or the kind of n that is being deleted with its
// contents, nil if neither is.
func drainingContainer(v View, n *Node) *Node {
	for _, u := range Containers(v, n) {
		if c := v.Node(u); c != nil && c.Draining() {
			return c
		}
	}
	return nil
}

// Containers returns the uids of the objects that stand for the namespace and the kind of n.
func Containers(v View, n *Node) (list []uid.UID) {
	if namespaces := v.Kinds().Of("", "Namespace"); namespaces != nil && n.Namespace != "" {
		if u := v.Lookup(namespaces, "", n.Namespace); u != "" {
			list = append(list, u)
		}
	}
	if kind := v.Kinds().OfNode(n); kind != nil {
		list = append(list, kind.UID)
	}
	return list
}

// validateProtection refuses an update that would change the protection of an object (B2.7).
// An update that does not mention it keeps it.
func validateProtection(was *Node, meta *coppicev1.ObjectMeta) []Cause {
	p := meta.GetProtection()
	if p == nil {
		return nil
	}
	is := was.Protection.api()
	if is == nil || p.GetReason() != is.GetReason() || p.GetActor() != is.GetActor() ||
		p.GetTime().GetSeconds() != is.GetTime().GetSeconds() || !slices.Equal(p.GetPolicies(), is.GetPolicies()) {
		return []Cause{forbidden("metadata.protection", "only the verbs protect and unprotect, and protection policies, change it")}
	}
	return nil
}

// protectionWarnings warns about a protection in an object that is created, applied or
// imported, which is ignored (B2.7).
func protectionWarnings(meta *coppicev1.ObjectMeta) []string {
	if meta.GetProtection() == nil {
		return nil
	}
	return []string{"metadata.protection is ignored: only the verbs protect and unprotect, and protection policies, change it"}
}
