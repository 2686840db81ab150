package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/selector"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A protection policy protects the objects of one kind whose labels match a selector (B2.10 to
// B2.15). The node of an object has the names of the policies that cover it: the commit that
// creates the object or changes its labels sets them, and a walk over the objects of the kind
// after a policy was created, changed or deleted.

// FinalizerProtection blocks the removal of a protection policy until no object has the
// protection of it any more. Only the deletion sets it, and only Coppice removes it.
const FinalizerProtection = Group + "/protection"

// maxPolicies is the maximum number of protection policies in a realm: each change of labels
// reads those of the kind.
const maxPolicies = 100

// PolicySpec is the spec of a protection policy.
type PolicySpec struct {
	// Group and Kind name the objects that the policy covers. They do not change.
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	// Selector is a label selector; empty for all objects of the kind.
	Selector string `json:"selector,omitempty"`
	// Reason says why the objects are protected.
	Reason string `json:"reason"`
}

// PolicyStatus is the status of a protection policy, which only Coppice writes.
type PolicyStatus struct {
	// Author is the actor that created the policy, or changed its spec last.
	Author string `json:"author,omitempty"`
	// ObservedGeneration is the generation of the policy to which the other members refer.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Message says how far the walk is: "covered 100 of 1000".
	Message string `json:"message,omitempty"`
	// Complete: each object that matches is protected, and no other by this policy.
	Complete bool `json:"complete"`
	// Covered is how many objects of the kind the walk has read, Protected how many of
	// them match.
	Covered   uint64 `json:"covered"`
	Protected uint64 `json:"protected"`
	// After is the last object that was read.
	After PolicyCursor `json:"after,omitzero"`
}

// PolicyCursor is a position among the objects of a kind. The zero value is the start.
type PolicyCursor struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Policy is a protection policy. It is immutable.
type Policy struct {
	PolicySpec
	Name   string
	UID    uid.UID
	Author string
	// Revision is that of the change of the spec.
	Revision uint64
	selector selector.Selector
}

// IsPolicy reports whether the node is a protection policy.
func IsPolicy(n *Node) bool { return isPolicy(n.Group(), n.Kind) }

func isPolicy(group, kind string) bool { return group == Group && kind == "ProtectionPolicy" }

// Policies returns the protection policies, ordered by name.
func (ks *Kinds) Policies() []*Policy { return ks.policies }

// Policy returns the protection policy with a uid, nil if there is none.
func (ks *Kinds) Policy(u uid.UID) *Policy {
	for _, p := range ks.policies {
		if p.UID == u {
			return p
		}
	}
	return nil
}

// WithPolicy returns the registry after a protection policy was created or updated. It is ks
// if neither the spec nor the author has changed.
func (ks *Kinds) WithPolicy(n *Node, body *coppicev1.Body) (*Kinds, error) {
	spec, labels, causes := parsePolicy(body.GetSpec())
	if len(causes) > 0 {
		return nil, fmt.Errorf("not the spec of a protection policy: %s", causes[0])
	}
	p := &Policy{PolicySpec: spec, Name: n.Name, UID: n.UID, Author: PolicyStatusOf(body).Author, Revision: n.Revision, selector: labels}
	if was := ks.Policy(n.UID); was != nil && was.PolicySpec == p.PolicySpec && was.Author == p.Author {
		return ks, nil
	}
	next := ks.WithoutPolicy(n.UID).clone()
	next.policies = append(slices.Clone(next.policies), p)
	slices.SortFunc(next.policies, func(a, b *Policy) int { return strings.Compare(a.Name, b.Name) })
	return next, nil
}

// WithoutPolicy returns the registry after a protection policy was removed.
func (ks *Kinds) WithoutPolicy(u uid.UID) *Kinds {
	if ks.Policy(u) == nil {
		return ks
	}
	next := ks.clone()
	next.policies = slices.DeleteFunc(slices.Clone(ks.policies), func(p *Policy) bool { return p.UID == u })
	return next
}

// Covers reports whether the policy covers an object with these labels.
func (p *Policy) Covers(v View, kind *Kind, labels map[string]string) bool {
	return p.Reaches(v, kind) && p.selector.Matches(labels)
}

// Reaches reports whether the policy can cover objects of a kind: their labels decide which. A
// policy that is being deleted covers none.
func (p *Policy) Reaches(v View, kind *Kind) bool {
	if kind == nil || p.Group != kind.Group || p.Kind != kind.Kind {
		return false
	}
	n := v.Node(p.UID)
	return n != nil && !n.Terminating()
}

// PolicyStatusOf returns the status in the body of a protection policy.
func PolicyStatusOf(body *coppicev1.Body) (s PolicyStatus) {
	_ = json.Unmarshal(body.GetStatus(), &s) // only Coppice writes it; without one the walk begins
	return s
}

// Of returns the status if it is of the present generation of the policy: otherwise a walk that
// begins.
func (s PolicyStatus) Of(n *Node) PolicyStatus {
	if s.ObservedGeneration == n.Generation {
		return s
	}
	return PolicyStatus{Author: s.Author, ObservedGeneration: n.Generation}
}

// json returns the status as JSON, with its message. of is the number of objects of the kind.
func (s PolicyStatus) json(of uint64) []byte {
	s.Message = fmt.Sprintf("covered %d of %d", s.Covered, max(of, s.Covered))
	if s.Complete {
		s.After = PolicyCursor{}
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// objectsOf returns the number of objects that a policy's walk reads.
func objectsOf(v View, spec *PolicySpec) uint64 {
	kind := v.Kinds().Of(spec.Group, spec.Kind)
	if kind == nil {
		return 0
	}
	_, objects := v.Brake(kind)
	return objects
}

// beginPolicy sets the status of a protection policy whose spec is new (B2.11).
func beginPolicy(ctx *Context, body *coppicev1.Body) {
	spec, _, _ := parsePolicy(body.GetSpec()) // checked by validatePolicy
	body.Status = PolicyStatus{Author: ctx.Actor}.json(objectsOf(ctx.View, &spec))
}

func parsePolicy(raw []byte) (spec PolicySpec, labels selector.Selector, causes []Cause) {
	if err := decodeSpec(raw, &spec); err != nil {
		return spec, nil, []Cause{invalidValue("spec", string(raw), "not the spec of a ProtectionPolicy: "+err.Error())}
	}
	if spec.Kind == "" {
		causes = append(causes, required("spec.kind", ""))
	}
	if err := CheckReason(spec.Reason); err != nil {
		causes = append(causes, invalidValue("spec.reason", spec.Reason, err.Message))
	}
	if selector.Blank(spec.Selector) {
		// validatePolicy refuses it. In a policy that an earlier version stored it selects all objects, as it did.
		return spec, nil, causes
	}
	labels, err := selector.Parse(spec.Selector)
	if err != nil {
		causes = append(causes, invalidValue("spec.selector", spec.Selector, err.Error()))
	}
	return spec, labels, causes
}

// validatePolicy checks a protection policy. was is the node before an update.
func validatePolicy(v View, o *coppicev1.Object, was *Node) []Cause {
	spec, _, causes := parsePolicy(o.GetSpec())
	if len(o.GetMetadata().GetOwnerReferences()) > 0 {
		// A client without the permission for policies could have it collected.
		causes = append(causes, Cause{Reason: "FieldValueForbidden", Field: "metadata.ownerReferences", Message: "Forbidden: a protection policy has no owners"})
	}
	if selector.Blank(spec.Selector) {
		_, err := selector.Parse(spec.Selector)
		causes = append(causes, invalidValue("spec.selector", spec.Selector, err.Error()))
	}
	if isPolicy(spec.Group, spec.Kind) {
		causes = append(causes, invalidValue("spec.kind", spec.Kind, "policies do not protect policies; the permission to change them does"))
	}
	var before *Policy
	if was != nil {
		before = v.Kinds().Policy(was.UID)
	}
	switch {
	case before != nil && (before.Group != spec.Group || before.Kind != spec.Kind):
		causes = append(causes, invalidValue("spec.kind", spec.Kind, "field is immutable; create another policy"))
	case was == nil && len(v.Kinds().Policies()) >= maxPolicies:
		causes = append(causes, invalidValue("spec", spec.Kind, fmt.Sprintf("a realm has at most %d protection policies", maxPolicies)))
	}
	return causes
}

// cover adds to the protection of an object the policies that cover it, in the commit that
// creates it or changes its labels (B2.10). It removes none: an update cannot clear a
// protection (B2.12).
func cover(v View, kind *Kind, n *Node, body *coppicev1.Body) {
	if len(v.Kinds().policies) == 0 || n.Terminating() || n.Uninitialized() {
		return
	}
	for _, p := range v.Kinds().policies {
		if p.Covers(v, kind, body.GetLabels()) {
			n.Protection = n.Protection.with(p.Name)
		}
	}
}

// with returns the protection with a policy.
func (p *Protection) with(policy string) *Protection {
	var next Protection
	if p != nil {
		if slices.Contains(p.Policies, policy) {
			return p
		}
		next = *p
	}
	next.Policies = append(slices.Clone(next.Policies), policy)
	slices.Sort(next.Policies)
	return &next
}

// only returns the protection with those of its policies that are kept, nil if nothing
// protects any more.
func (p *Protection) only(kept func(policy string) bool) *Protection {
	next := *p
	next.Policies = nil
	for _, name := range p.Policies {
		if kept(name) {
			next.Policies = append(next.Policies, name)
		}
	}
	if len(next.Policies) == 0 && !next.Direct() {
		return nil
	}
	return &next
}

// covering reports which of the policies that protect n still cover it.
func covering(ctx *Context, n *Node) func(policy string) bool {
	kind := ctx.Kinds().OfNode(n)
	return func(policy string) bool {
		return slices.ContainsFunc(ctx.Kinds().policies, func(p *Policy) bool {
			return p.Name == policy && p.Reaches(ctx.View, kind) && p.selector.Matches(ctx.Body(n).GetLabels())
		})
	}
}

// Miscovered reports whether the walk of a policy has to change the protection of n.
func Miscovered(v View, p *Policy, n *Node, labels map[string]string) bool {
	if n.Terminating() || n.Uninitialized() {
		return false
	}
	has := n.Protection != nil && slices.Contains(n.Protection.Policies, p.Name)
	return has != p.Covers(v, v.Kinds().OfNode(n), labels)
}

// Cover decides what the walk of a protection policy does to an object of its kind (B2.11): the
// policy protects it if it matches, and not otherwise.
func Cover(ctx *Context, p *Policy, n *Node) []Event {
	var labels map[string]string
	if p.Reaches(ctx.View, ctx.Kinds().OfNode(n)) {
		labels = ctx.Body(n).GetLabels()
	}
	if !Miscovered(ctx.View, p, n, labels) {
		return nil
	}
	after, reason := n.Protection.with(p.Name), coppicev1.Reason_REASON_PROTECTED
	if after == n.Protection {
		after, reason = n.Protection.only(func(name string) bool { return name != p.Name }), coppicev1.Reason_REASON_UNPROTECTED
	}
	e := protectionEvent(n, after)
	e.Reason, e.Cause = reason, max(p.Revision, ctx.Node(p.UID).DeletionRevision)
	return []Event{e}
}

// Walked returns the event that records how far the walk of a protection policy is, or that it
// is complete. A policy that is being deleted then loses its finalizer (B2.13). If others keep it, it
// also gets the status, so that no walk begins again.
func Walked(ctx *Context, n *Node, status PolicyStatus) []Event {
	p := ctx.Kinds().Policy(n.UID)
	if p == nil {
		return nil
	}
	ends := status.Complete && n.Terminating() && n.HasFinalizer(FinalizerProtection)
	if ends && len(n.Finalizers) == 1 {
		return []Event{finalized(n, FinalizerProtection)}
	}
	node := *n
	body := withStatus(ctx.Body(n), status.json(objectsOf(ctx.View, &p.PolicySpec)))
	events := []Event{{Type: ObjectUpdated, UID: n.UID, Reason: coppicev1.Reason_REASON_REQUESTED, Object: Object{Node: &node, Body: body}}}
	if ends {
		events = append(events, finalized(n, FinalizerProtection))
	}
	return events
}

// withProtection adds the finalizer to the list of a protection policy that is marked.
func withProtection(n *Node, list []string) []string {
	if !IsPolicy(n) || slices.Contains(list, FinalizerProtection) {
		return list
	}
	return slices.Concat(list, []string{FinalizerProtection})
}

// keepProtection adds the finalizer to the list that a client sends for an object that has it.
func keepProtection(was *Node, list []string) []string {
	if !was.HasFinalizer(FinalizerProtection) || slices.Contains(list, FinalizerProtection) {
		return list
	}
	return slices.Concat(list, []string{FinalizerProtection})
}

// validateProtectionFinalizer refuses the finalizer from clients.
func validateProtectionFinalizer(was *Node, list []string) []Cause {
	i := slices.Index(list, FinalizerProtection)
	if i < 0 || was != nil && was.HasFinalizer(FinalizerProtection) {
		return nil
	}
	return []Cause{forbidden(fmt.Sprintf("metadata.finalizers[%d]", i), FinalizerProtection+" is set by the deletion of a protection policy")}
}

// checkUncovered refuses to take the finalizer from a policy: its walk does, when it is complete.
func checkUncovered(at Key, n *Node, finalizer string) *Error {
	if finalizer != FinalizerProtection || !n.HasFinalizer(finalizer) {
		return nil
	}
	return errConflict(at, "finalizer %s goes when no object has the protection of the policy any more; see its status", finalizer)
}

// ProtectedBy says who protects an object and why: the actor, and the policies with their
// authors.
func ProtectedBy(v View, n *Node) string {
	p := n.Protection
	if p == nil || len(p.Policies) == 0 {
		return p.String()
	}
	var said []string
	if p.Direct() {
		said = append(said, (&Protection{Reason: p.Reason, Actor: p.Actor, Time: p.Time}).String())
	}
	for _, name := range p.Policies {
		text := "the protection policy " + name
		for _, policy := range v.Kinds().Policies() {
			if policy.Name == name {
				text += " of " + policy.Author + ": " + policy.Reason
			}
		}
		said = append(said, text)
	}
	return strings.Join(said, "; and by ")
}

// policyStatus sets the status of a protection policy that is updated or imported again: the
// old one, or that of a walk that begins if the spec has changed.
func policyStatus(ctx *Context, was, node *Node, body, old *coppicev1.Body) {
	if string(body.GetSpec()) == string(old.GetSpec()) {
		body.Status, node.Generation = old.GetStatus(), was.Generation
		if node.Terminating() && !was.Terminating() {
			node.Generation++ // as the mark of a DELETE, after which the walk begins again
		}
		return
	}
	node.Generation = max(node.Generation, was.Generation+1)
	beginPolicy(ctx, body)
}
