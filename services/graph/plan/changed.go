package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/planname"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// changesSaid is the maximum number of objects that a refusal names.
const changesSaid = 10

// Changed returns the error for a deletion whose plan is not the named one. The error says
// what the deletion would do now, and which objects of the plan are new or have changed
// since the named plan. It cannot name objects that have left the plan.
func (p *Plan) Changed(d Deletion, was planname.Name) *lifecycle.Error {
	e := &lifecycle.Error{Reason: api.ErrConflict}
	if len(d.Also) == 0 {
		e.Resource, e.Namespace = d.Resource, d.Namespace
		if len(d.GetNames()) == 1 {
			e.Name = d.GetNames()[0]
		}
	}
	before := func(o *Object) bool { return was.Revision == 0 || o.Node.Revision <= was.Revision }
	since := slices.DeleteFunc(slices.Clone(p.Objects), before)
	said := "none of these objects has changed since: an object of the plan no longer exists, or the request or the plan's name was changed"
	var kinds []string
	for kind, revision := range p.kinds {
		if was.Revision != 0 && revision > was.Revision {
			kinds = append(kinds, kind.Resource())
		}
	}
	slices.Sort(kinds)
	switch {
	case len(kinds) > 0:
		said = "none of these objects has changed since, but the kind of " + strings.Join(kinds[:min(len(kinds), changesSaid)], ", ")
	case slices.ContainsFunc(p.elsewhere, func(o *Object) bool { return !before(o) }):
		said = "objects that the plan does not name have changed since"
	case was.Revision == 0:
		said = "what has changed since is not known, as the plan was named without its revision"
	}
	objects := p.Objects
	if len(since) > 0 {
		objects, said = since, "of these changed since: "
		for i, o := range since[:min(len(since), changesSaid)] {
			if i > 0 {
				said += ", "
			}
			said += o.key()
		}
		if more := len(since) - changesSaid; more > 0 {
			said += fmt.Sprintf(" and %d more", more)
		}
	}
	e.Message = fmt.Sprintf("the plan %s does not hold any more: at revision %d (plan %s) the deletion %s; %s; nothing was done: plan again",
		was, p.Revision, p.Name(), say(p.Counts(), len(p.elsewhere)), said)
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *Object) int { return cmp.Compare(b.Node.Revision, a.Node.Revision) })
	for _, o := range objects[:min(len(objects), changesSaid)] {
		e.Causes = append(e.Causes, lifecycle.Cause{
			Reason: api.CausePlanChanged, Field: o.key(),
			Message: fmt.Sprintf("%s; last changed at revision %d", outcomes[o.Outcome], o.Node.Revision),
		})
	}
	return e
}

func (o *Object) key() string {
	s := o.Resource + "/" + o.Node.Name
	if o.Node.Namespace != "" {
		s += " (" + o.Node.Namespace + ")"
	}
	return s
}

var outcomes = map[Outcome]string{
	Removed:      "would be removed",
	RemovedLater: "would be removed once blockers have done their part",
	Blocked:      "would be blocked",
	Orphaned:     "would be orphaned",
	Stripped:     "would lose references",
	Kept:         "would be kept",
	Protected:    "would stay, because it is protected",
}

// say returns a short description of a plan. c counts the objects that the plan names, elsewhere
// the others.
func say(c *coppicev1.PlanCounts, elsewhere int) string {
	var said []string
	for _, part := range []struct {
		n    uint32
		what string
	}{
		{c.GetRemoved() + c.GetRemovedLater(), "removes"}, {c.GetBlocked(), "marks and does not remove"}, {c.GetOrphaned(), "orphans"},
		{c.GetStripped(), "strips"}, {c.GetKept(), "keeps"}, {c.GetProtected(), "leaves protected"},
	} {
		if part.n > 0 {
			said = append(said, fmt.Sprintf("%s %d", part.what, part.n))
		}
	}
	if elsewhere > 0 {
		said = append(said, fmt.Sprintf("and takes in %d that it does not name", elsewhere))
	}
	return strings.Join(said, ", ")
}
