package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// PlanDrawing draws the objects of a plan.
type PlanDrawing struct {
	plan     *coppicev1.PlanReply
	below    map[string][]*coppicev1.PlannedObject // by the uid of the object that causes their deletion
	ownerKey func(*coppicev1.OwnerReference) string
	blocker  func(h *coppicev1.PlanBlocker, resource string) string
	all      bool
	now      time.Time
}

// NewPlanDrawing returns the drawing of a plan. ownerKey spells an owner, blocker what
// blocks an object of a resource; with all, objects of one kind are not only counted. Times are
// shown without their date if that is today at now.
func NewPlanDrawing(p *coppicev1.PlanReply, ownerKey func(*coppicev1.OwnerReference) string, blocker func(*coppicev1.PlanBlocker, string) string, all bool, now time.Time) *PlanDrawing {
	d := &PlanDrawing{plan: p, below: map[string][]*coppicev1.PlannedObject{}, ownerKey: ownerKey, blocker: blocker, all: all, now: now}
	for _, o := range p.GetObjects() {
		if !o.GetRequested() {
			d.below[o.GetBecause()] = append(d.below[o.GetBecause()], o)
		}
	}
	return d
}

// Trees returns a tree for each object that the deletion names.
func (d *PlanDrawing) Trees() []*Branch {
	var list []*Branch
	for _, o := range d.plan.GetObjects() {
		if o.GetRequested() {
			list = append(list, d.down(o, o.GetNamespace(), 0))
		}
	}
	return list
}

func (d *PlanDrawing) down(o *coppicev1.PlannedObject, namespace string, depth int) *Branch {
	b := &Branch{key: o.GetResource() + "/" + o.GetName()}
	if o.GetNamespace() != namespace {
		b.key = terminal.WithNamespace(b.key, o.GetNamespace())
	}
	if o.GetTerminating() {
		b.notes = append(b.notes, "Terminating")
	}
	if o.GetForegroundForUsers() {
		b.notes = append(b.notes, "in the foreground, because others use it")
	}
	if o.GetDependsOnOrder() {
		b.notes = append(b.notes, "depends on order")
	}
	b.ending = d.outcome(o) + d.expiry(o)
	below := d.below[o.GetUid()]
	if depth >= maxDepth && len(below) > 0 {
		b.below = append(b.below, &Branch{key: "… " + terminal.Count(len(below), "object") + ", and what is below"})
		return b
	}
	plain := map[string][]*coppicev1.PlannedObject{} // by resource
	var rest []*coppicev1.PlannedObject
	for _, c := range below {
		if d.plain(c) {
			plain[c.GetResource()] = append(plain[c.GetResource()], c)
		} else {
			rest = append(rest, c)
		}
	}
	var groups []*Branch
	for resource, group := range plain {
		if len(group) == 1 {
			rest = append(rest, group...)
			continue
		}
		groups = append(groups, &Branch{key: fmt.Sprintf("%d %s", len(group), resource), ending: d.outcome(group[0])})
	}
	slices.SortFunc(groups, func(a, b *Branch) int { return cmp.Compare(a.key, b.key) })
	slices.SortFunc(rest, func(a, b *coppicev1.PlannedObject) int {
		leaf := func(o *coppicev1.PlannedObject) int { return min(len(d.below[o.GetUid()]), 1) }
		return cmp.Or(protected(b)-protected(a), leaf(b)-leaf(a), cmp.Compare(a.GetResource(), b.GetResource()), cmp.Compare(a.GetName(), b.GetName()),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()))
	})
	for _, c := range rest {
		b.below = append(b.below, d.down(c, o.GetNamespace(), depth+1))
	}
	b.below = append(b.below, groups...)
	return b
}

// protected is 1 for an object that its protection keeps: it is shown first.
func protected(o *coppicev1.PlannedObject) int {
	if o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_PROTECTED {
		return 1
	}
	return 0
}

// plain reports whether nothing is worth showing of an object but that it is removed.
func (d *PlanDrawing) plain(o *coppicev1.PlannedObject) bool {
	return !d.all && !o.GetDependsOnOrder() && o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED && len(d.below[o.GetUid()]) == 0
}

// expiry says when an object that stays is deleted because of the time.
func (d *PlanDrawing) expiry(o *coppicev1.PlannedObject) (text string) {
	if at := o.GetExpiresAt(); at != 0 {
		text = "; expires at " + terminal.Clock(time.UnixMicro(at), d.now)
	}
	if policy := o.GetNoticePolicy(); policy != "" {
		text += fmt.Sprintf("; expiry policy %s has given notice until %s", policy, terminal.Clock(time.UnixMicro(o.GetNoticeEnds()), d.now))
	}
	return text
}

// outcome describes what the deletion does to an object.
func (d *PlanDrawing) outcome(o *coppicev1.PlannedObject) string {
	var blockers, lost []string
	for _, h := range o.GetBlockers() {
		blockers = append(blockers, d.blocker(h, o.GetResource()))
	}
	for _, r := range o.GetReferences() {
		lost = append(lost, d.ownerKey(r))
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
