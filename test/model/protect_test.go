package model_test

import (
	"encoding/json"
	"maps"
	"slices"
)

// Protection by clients and by policies (B2).

const protectionFinalizer = "coppice.dev/protection"

// maxPolicies is the maximum number of protection policies in a realm (B2.15).
const maxPolicies = 100

func (o *object) protected() bool { return o.protector != "" || len(o.policies) > 0 }

// onlyProtected reports whether o is protected and has one owner: no owner can be stripped from
// it, so that it waits for nothing but its protection.
func (o *object) onlyProtected() bool {
	return o.protected() && !o.terminating() && !slices.ContainsFunc(o.owners, func(r ref) bool { return !sameOwner(r, o.owners[0]) })
}

func isPolicy(o *object) bool { return o.group == "coppice.dev" && o.kind == "ProtectionPolicy" }

// policySpec is the spec of a protection policy. The selectors of scripts are lists of labels.
type policySpec struct{ Group, Kind, Selector, Reason string }

func policyOf(o *object) (p policySpec) {
	if err := json.Unmarshal([]byte(o.spec), &p); err != nil {
		panic(err)
	}
	return p
}

// covers reports whether a policy covers an object. A policy that is being deleted covers
// none (B2.13).
func covers(policy, o *object) bool {
	if !isPolicy(policy) {
		return false
	}
	p := policyOf(policy)
	return !policy.terminating() && p.Group == o.group && p.Kind == o.kind && labelled(o, p.Selector)
}

// labelled reports whether an object has the labels of a selector.
func labelled(o *object, selector string) bool {
	labels := labelMap(o.labels)
	for k, v := range labelMap(selector) {
		if is, ok := labels[k]; !ok || is != v {
			return false
		}
	}
	return true
}

// cover adds the policies that cover an object that is stored (B2.10). It removes none
// (B2.12).
func (m *model) cover(o *object) {
	if o.terminating() || o.uninitialized() {
		return
	}
	for uid := range m.policies {
		if p := m.objects[uid]; covers(p, o) && !slices.Contains(o.policies, p.name) {
			o.policies = slices.Sorted(slices.Values(append(slices.Clone(o.policies), p.name)))
		}
	}
}

// walk returns what the walk of a policy does to an object (B2.11, B2.13).
func walk(policy, o *object) []effect {
	if !isPolicy(policy) {
		return nil
	}
	has, should := slices.Contains(o.policies, policy.name), covers(policy, o)
	if has == should || o.terminating() || o.uninitialized() {
		return nil
	}
	next := *o
	if next.policies = append(slices.Clone(o.policies), policy.name); has {
		next.policies = slices.DeleteFunc(slices.Clone(o.policies), func(name string) bool { return name == policy.name })
	}
	slices.Sort(next.policies)
	return []effect{{uid: o.uid, after: &next}}
}

// walkEnds reports whether the walk of a policy can be complete: it protects each object that
// matches or, if it is being deleted, none.
func (m *model) walkEnds(policy *object) bool {
	for _, o := range m.objects {
		if len(walk(policy, o)) > 0 && (covers(policy, o) || policy.terminating()) {
			return false
		}
	}
	return true
}

// walked returns the effects of the end of a walk.
func walked(policy *object) []effect {
	ends := policy.terminating() && policy.has(protectionFinalizer)
	if ends && len(policy.finalizers) == 1 {
		return unfinalize(policy, protectionFinalizer)
	}
	next := *policy
	next.walked = next.generation
	effects := []effect{{uid: policy.uid, after: &next}}
	if ends {
		effects = append(effects, unfinalize(&next, protectionFinalizer)...)
	}
	return effects
}

// unwalked reports whether a policy still has to walk.
func unwalked(policy *object) bool {
	return policy.walked != policy.generation || policy.terminating() && policy.has(protectionFinalizer)
}

// protect decides the verb protect (B2.5).
func (m *model) protect(o *object, by string, now int64) outcome {
	switch {
	case o.terminating() || o.uninitialized():
		return refusal("Conflict")
	case o.protector == by:
		return outcome{code: 200}
	}
	next := *o
	next.protector, next.shielded = by, now
	return outcome{code: 200, effects: []effect{{uid: o.uid, after: &next}}}
}

// unprotect decides the verb unprotect (B2.6, B2.14).
func (m *model) unprotect(o *object) outcome {
	if !o.protected() {
		return outcome{code: 200}
	}
	next := *o
	next.protector, next.shielded, next.policies = "", 0, nil
	for _, name := range o.policies {
		for uid := range m.policies {
			if p := m.objects[uid]; p.name == name && covers(p, o) {
				next.policies = append(next.policies, name)
			}
		}
	}
	if o.protector == "" && len(next.policies) == len(o.policies) {
		return refusal("Conflict")
	}
	return outcome{code: 200, effects: []effect{{uid: o.uid, after: &next}}}
}

// badPolicy reports whether a policy is invalid (B2.15). was is the object before an update.
func (m *model) badPolicy(o, was *object) bool {
	if was == nil {
		n := 0
		for uid := range m.policies {
			if isPolicy(m.objects[uid]) {
				n++
			}
		}
		return n >= maxPolicies
	}
	before, after := policyOf(was), policyOf(o)
	return before.Group != after.Group || before.Kind != after.Kind
}

// covering checks an event of the walk of a policy.
func (a *auditor) covering(e *step, o *object) {
	for uid := range a.m.policies {
		if effects := walk(a.m.objects[uid], o); len(effects) == 1 && a.same(e, effects[0]) == "" {
			return
		}
	}
	a.violation(tagOf(o), "B2.11: no policy has %v %s\n  from %s", o, e.after(o).text(), o.text())
}

// walking checks the status that the walk of a policy records.
func (a *auditor) walking(e *step, policy *object) {
	after := e.after(policy)
	next := *policy
	if next.walked = after.walked; next.walked == next.generation && !a.m.walkEnds(policy) {
		a.violation(tagOf(policy), "B2.11: the walk of %v is complete, and it does not protect each object that it covers", policy)
	}
	a.expect(e, []effect{{uid: policy.uid, after: &next}}, "B2.11")
}

// walks returns the actions of the walks of policies.
func (m *model) walks(add func(name string, o *object, effects []effect)) {
	for _, uid := range slices.Sorted(maps.Keys(m.policies)) {
		p := m.objects[uid]
		if !isPolicy(p) || !unwalked(p) {
			continue
		}
		for _, at := range slices.Sorted(maps.Keys(m.objects)) {
			add("cover by "+p.String()+" of", m.objects[at], walk(p, m.objects[at]))
		}
		if m.walkEnds(p) {
			add("end the walk of", p, walked(p))
		}
	}
}
