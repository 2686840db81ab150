package tree

import (
	"cmp"
	"fmt"
	"slices"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// PlanDrawing draws the objects of a plan.
type PlanDrawing struct {
	*Planned
	words PlanWords
	all   bool
}

// NewPlanDrawing returns the drawing of a plan. With all, objects of one kind are not only counted.
func NewPlanDrawing(p *coppicev1.PlanReply, words PlanWords, all bool) *PlanDrawing {
	return &PlanDrawing{Planned: NewPlanned(p), words: words, all: all}
}

// Trees returns a tree for each object that the deletion names.
func (d *PlanDrawing) Trees() []*Branch {
	var list []*Branch
	for _, o := range d.Requested() {
		list = append(list, d.down(o, o.GetNamespace(), 0))
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
	b.ending = d.words.Outcome(o)
	below := d.below[o.GetUid()]
	if depth >= maxDepth && len(below) > 0 {
		b.below = append(b.below, &Branch{key: "… " + terminal.Count(len(below), "object") + ", and what is below"})
		return b
	}
	rest, plain := d.Below(o.GetUid(), d.all)
	var groups []*Branch
	for _, group := range plain {
		groups = append(groups, &Branch{key: fmt.Sprintf("%d %s", len(group), group[0].GetResource()), ending: d.words.Outcome(group[0])})
	}
	slices.SortFunc(groups, func(a, b *Branch) int { return cmp.Compare(a.key, b.key) })
	for _, c := range rest {
		b.below = append(b.below, d.down(c, o.GetNamespace(), depth+1))
	}
	b.below = append(b.below, groups...)
	return b
}
