package tree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Planned has the objects of a plan as trees, each below the object because of which it is affected.
type Planned struct {
	requested []*coppicev1.PlannedObject
	below     map[string][]*coppicev1.PlannedObject // by the uid of the object because of which they are affected
}

// NewPlanned returns the trees of a plan.
func NewPlanned(p *coppicev1.PlanReply) *Planned {
	t := &Planned{below: map[string][]*coppicev1.PlannedObject{}}
	for _, o := range p.GetObjects() {
		if o.GetRequested() {
			t.requested = append(t.requested, o)
		} else {
			t.below[o.GetBecause()] = append(t.below[o.GetBecause()], o)
		}
	}
	return t
}

// Requested returns the objects that the deletion names.
func (p *Planned) Requested() []*coppicev1.PlannedObject { return p.requested }

// Below returns what is directly below the object with a uid, in the order in which it is shown. groups are the objects of
// one resource, two or more, which are simply removed and have nothing below them, ordered by resource; with all there are
// none, and each object is one of the others.
func (p *Planned) Below(uid string, all bool) (others []*coppicev1.PlannedObject, groups [][]*coppicev1.PlannedObject) {
	plain := map[string][]*coppicev1.PlannedObject{} // by resource
	for _, o := range p.below[uid] {
		if !all && p.plain(o) {
			plain[o.GetResource()] = append(plain[o.GetResource()], o)
		} else {
			others = append(others, o)
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(plain)) {
		if group := plain[resource]; len(group) > 1 {
			groups = append(groups, group)
		} else {
			others = append(others, group...)
		}
	}
	slices.SortFunc(others, func(a, b *coppicev1.PlannedObject) int {
		leaf := func(o *coppicev1.PlannedObject) int { return min(len(p.below[o.GetUid()]), 1) }
		return cmp.Or(protected(b)-protected(a), leaf(b)-leaf(a), cmp.Compare(a.GetResource(), b.GetResource()), cmp.Compare(a.GetName(), b.GetName()),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()))
	})
	return others, groups
}

// Count returns the number of objects below each object, by uid. It follows chains of any length.
func (p *Planned) Count() map[string]int {
	order := slices.Clone(p.requested)
	for i := 0; i < len(order); i++ {
		order = append(order, p.below[order[i].GetUid()]...)
	}
	count := make(map[string]int, len(p.below))
	for _, o := range slices.Backward(order) {
		if n := count[o.GetUid()] + 1; !o.GetRequested() {
			count[o.GetBecause()] += n
		}
	}
	return count
}

// protected is 1 for an object that its protection keeps: it is shown first.
func protected(o *coppicev1.PlannedObject) int {
	if o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_PROTECTED {
		return 1
	}
	return 0
}

// plain reports whether nothing is worth showing of an object but that it is removed.
func (p *Planned) plain(o *coppicev1.PlannedObject) bool {
	return !o.GetDependsOnOrder() && o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED && len(p.below[o.GetUid()]) == 0
}

// PlanWords say what a deletion does to an object.
type PlanWords struct {
	// OwnerKey spells an owner.
	OwnerKey func(*coppicev1.OwnerReference) string
	// Blocker names what blocks an object of a resource.
	Blocker func(h *coppicev1.PlanBlocker, resource string) string
	// Now is the present time: of times of today, the date is left out.
	Now time.Time
}

// Outcome describes what the deletion does to an object, and when the object is deleted because of the time if it stays.
func (w *PlanWords) Outcome(o *coppicev1.PlannedObject) string { return w.outcome(o) + w.expiry(o) }

// expiry says when an object that stays is deleted because of the time.
func (w *PlanWords) expiry(o *coppicev1.PlannedObject) (text string) {
	if at := o.GetExpiresAt(); at != 0 {
		text = "; expires at " + terminal.Clock(time.UnixMicro(at), w.Now)
	}
	if policy := o.GetNoticePolicy(); policy != "" {
		text += fmt.Sprintf("; expiry policy %s has given notice until %s", policy, terminal.Clock(time.UnixMicro(o.GetNoticeEnds()), w.Now))
	}
	return text
}

// outcome describes what the deletion does to an object.
func (w *PlanWords) outcome(o *coppicev1.PlannedObject) string {
	var blockers, lost []string
	for _, h := range o.GetBlockers() {
		blockers = append(blockers, w.Blocker(h, o.GetResource()))
	}
	for _, r := range o.GetReferences() {
		lost = append(lost, w.OwnerKey(r))
	}
	by := strings.Join(blockers, ", ")
	switch o.GetOutcome() {
	case coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED:
		return "removed"
	case coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED_LATER:
		if by == "" {
			return "removed after that"
		}
		return "removed after " + by
	case coppicev1.PlanOutcome_PLAN_OUTCOME_BLOCKED:
		return "blocked" + terminal.Prefixed(" by ", by)
	case coppicev1.PlanOutcome_PLAN_OUTCOME_ORPHANED:
		return "orphaned by " + strings.Join(lost, ", ")
	case coppicev1.PlanOutcome_PLAN_OUTCOME_STRIPPED:
		return "stays, stripped of " + strings.Join(lost, ", ")
	case coppicev1.PlanOutcome_PLAN_OUTCOME_KEPT:
		return "stays, as " + by
	case coppicev1.PlanOutcome_PLAN_OUTCOME_PROTECTED:
		return "stays, protected by " + by
	}
	return o.GetOutcome().String()
}
