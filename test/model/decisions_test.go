package model_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
)

// collector checks that the collector may cause each event at the state just before it (S1,
// S2, S7, S8, S9).
func (a *auditor) collector(actor, verb string, steps []step, now int64) {
	var cycle []*object
	for _, e := range steps {
		if o := a.m.objects[e.uid]; e.reason == "UNREACHABLE" && o != nil {
			cycle = append(cycle, o)
		}
	}
	if len(cycle) > 0 {
		owned := true
		for _, o := range cycle {
			owned = owned && slices.ContainsFunc(o.owners, func(r ref) bool {
				return slices.ContainsFunc(cycle, func(p *object) bool { return fits(o, r, p) })
			})
		}
		if !a.m.options.collect || !owned || !a.m.unreachable(cycle, now) {
			a.violation(tagOf(cycle[0]), "L5: %v was collected as unreachable", cycle)
		}
	}
	// A cycle is collected at once: an object is marked for a user that goes in the same commit.
	unreachable := map[string][]effect{}
	for _, o := range cycle {
		unreachable[o.uid] = a.m.collect(o, false, now)
	}
	for i := range steps {
		e := &steps[i]
		o := a.m.objects[e.uid]
		if o == nil {
			a.violation("", "S14: %s of %s, which is not there", e.what, e.uid)
			continue
		}
		if e.reason == "UNREACHABLE" {
			a.expect(e, unreachable[e.uid], "L5")
		} else {
			a.collected(actor, verb, e, o, now)
		}
		a.braking(actor, e, o, now)
		a.apply(e)
	}
}

func (a *auditor) collected(actor, verb string, e *step, o *object, now int64) {
	m, tag := a.m, tagOf(o)
	switch e.reason {
	case "OWNER_ABSENT", "OWNER_WAITING":
		decision, causes, _ := m.evaluate(o, now)
		if decision != "collect" && decision != "foreground" {
			a.violation(tag, "S1: %v was collected; its owners are %s", o, a.classes(o, now))
			return
		}
		if !slices.Contains(causes, e.cause) {
			a.violation(tag, "S1: %v was collected because of revision %d, not one of %v", o, e.cause, causes)
		}
		a.expect(e, m.collect(o, decision == "foreground", now), "S1")
	case "SOLID_OWNER_REMAINS":
		if decision, _, _ := m.evaluate(o, now); decision != "strip" {
			a.violation(tag, "A12.7: %v was stripped; its owners are %s", o, a.classes(o, now))
			return
		}
		a.expect(e, m.strip(o, now), "A12.7")
	case "OWNER_ORPHANS":
		if decision, _, _ := m.evaluate(o, now); decision == "strip" {
			a.violation(tag, "S9: %v lost a reference to an owner before its dangling references; its owners are %s", o, a.classes(o, now))
		}
		for _, r := range o.owners {
			if owner := m.objects[r.uid]; (fits(o, r, owner) || m.movedFrom(o, r, owner)) && m.parts(owner, now) && a.same(e, m.part(o, owner)[0]) == "" {
				return
			}
		}
		a.violation(tag, "S9: %v was parted from an owner that does not orphan it; its owners are %s", o, a.classes(o, now))
	case "CYCLE":
		a.cycleBroken(e, o, now)
	case "CONTAINER":
		for _, c := range m.objects {
			early := now < m.podsUntil(c) && !isPod(o) && !m.usesEnding(o) // A5.8
			if c.terminating() && c.has(contentsFinalizer) && m.contains(c, o) && !o.terminating() && !o.protected() && !early && now >= m.expires(c.session) {
				a.expect(e, m.collect(o, false, now), "A5.7")
				return
			}
		}
		a.violation(tag, "A5.7: %v was drained", o)
	case "PROTECTED", "UNPROTECTED":
		a.covering(e, o)
	case "REQUESTED":
		if expiring(actor) {
			a.expired(actor, e, o, now)
			return
		}
		if !isPolicy(o) || actor != bus.RoleGraph {
			a.violation(tag, "%s of %v by %s, which did not ask for it", e.what, o, actor)
			return
		}
		a.walking(e, o)
	case "FINALIZED":
		a.finalized(actor, verb, e, o, now)
	default:
		a.violation(tag, "%s of %v by %s for %s", e.what, o, actor, e.reason)
	}
}

// finalized checks the removal of a finalizer: a built-in one, the served one, or that of
// an agent.
func (a *auditor) finalized(actor, verb string, e *step, o *object, now int64) {
	f := ""
	if len(e.names) > 0 {
		f = e.names[len(e.names)-1]
	}
	zero := int64(0)
	switch builtin := f == orphanFinalizer || f == foregroundFinalizer || f == contentsFinalizer || f == protectionFinalizer || f == inUseFinalizer; {
	case actor == served && o.inUse():
		a.violation(tagOf(o), "B3.6: %v was called for %v, which others use", e.what, o)
	case actor == served && verb == bus.VerbRemoveFinalizer:
		a.expect(e, unfinalize(o, servedFinalizer), "A2.12")
	case actor == served:
		a.expect(e, a.m.deletion(o, "", "", &zero, now), "A5")
	case builtin && !a.m.finishable(o, f, now):
		a.violation(tagOf(o), "S7, S9: %v lost its finalizer %s in spite of %v, of which %v delay it, generation %d of %d", o, f, a.m.valid(o, false), a.m.delaying(o, now), o.observed, o.awaited)
	case builtin:
		a.expect(e, unfinalize(o, f), "A13")
	default:
		a.violation(tagOf(o), "S3: %s took %s from %v", actor, f, o)
	}
}

// waiting returns the objects of a script that wait for their dependents or users.
func (a *auditor) waiting(tag string) (list []*object) {
	for uid := range a.of[tag] {
		if o := a.m.objects[uid]; o.waiting() || o.inUse() {
			list = append(list, o)
		}
	}
	return list
}

func (a *auditor) classes(o *object, now int64) string {
	var list []string
	for _, r := range o.owners {
		c, _, _ := a.m.classify(o, r, now)
		list = append(list, fmt.Sprintf("%s %s (%s): %s", r.kind, r.name, r.uid, c))
	}
	return "[" + strings.Join(list, ", ") + "]"
}
