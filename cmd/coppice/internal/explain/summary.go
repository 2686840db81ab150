package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// summary says in a sentence why the object exists.
func (e *explainer) summary(n *coppicev1.GraphNode) string {
	if e.State == Terminating {
		return e.terminating(n)
	}
	own := func(class coppicev1.OwnerClass) (list []string) {
		for _, o := range e.Owners {
			if o.Depth == 0 && o.class == class {
				said := fmt.Sprintf("%s (%s)", o.Owner, strings.ToLower(o.Class))
				if o.Terminating {
					said = fmt.Sprintf("%s (%s, and being deleted itself)", o.Owner, strings.ToLower(o.Class))
				}
				if o.UnknownUntil != nil {
					said = fmt.Sprintf("%s (%s until %s)", o.Owner, strings.ToLower(o.Class), console.Clock(*o.UnknownUntil, e.Now()))
				}
				list = append(list, said)
			}
		}
		return list
	}
	key := tree.KeyOfNode(n)
	solid, unknown := own(coppicev1.OwnerClass_OWNER_CLASS_SOLID), own(coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN)
	switch {
	case len(solid) == 1:
		return fmt.Sprintf("%s is not deleted: %s owns it", key, solid[0])
	case len(solid) > 1:
		return fmt.Sprintf("%s is not deleted: %s own it", key, console.Short(solid, 3))
	case len(unknown) > 0:
		return fmt.Sprintf("%s is not deleted: %s may own it", key, console.Short(unknown, 3))
	case len(e.Owners) == 0:
		return key + " is not deleted: it has no owners, and no client has deleted it"
	}
	return key + " is about to be deleted: none of its owners keeps it"
}

// terminating says in a sentence what blocks the removal of the object.
func (e *explainer) terminating(n *coppicev1.GraphNode) string {
	how := ""
	var blockers, waits []string
	for _, f := range e.Finalizers {
		switch f.Name {
		case lifecycle.FinalizerForeground:
			how = " in the foreground"
			waits = append(waits, e.waits()...)
		case lifecycle.FinalizerOrphan:
			how = ", orphaning its dependents,"
			if e.Dependents.All > 0 {
				waits = append(waits, "removes the references of "+console.Count(int(e.Dependents.All), "dependent"))
			}
		case lifecycle.FinalizerContents:
			waits = append(waits, "removes what is in it: "+lookup.Left(n))
		default:
			blockers = append(blockers, f.Name+f.is.Note())
		}
	}
	if e.Agent != nil {
		blockers = append(blockers, "its agent"+e.Agent.is.Note()+" until "+console.Clock(e.Agent.Until, e.Now()))
	}
	if e.Generation != nil {
		waits = append(waits, fmt.Sprintf("waits until its controller has seen generation %d (it has seen %d)", e.Generation.Awaited, e.Generation.Observed))
	}
	if e.ImportEnds != nil {
		waits = append(waits, "waits for the rest of its import, until "+console.Clock(*e.ImportEnds, e.Now())+" at the latest")
	}
	if len(blockers) > 0 {
		waits = slices.Insert(waits, 0, "is blocked by "+console.Short(blockers, 3))
	}
	if len(waits) == 0 {
		waits = []string{"is about to be removed"}
	}
	return fmt.Sprintf("%s is being deleted%s since %s and %s", tree.KeyOfNode(n), how, console.Clock(*e.Since, e.Now()), strings.Join(waits, ", and "))
}

// waits says for which dependents the object waits.
func (e *explainer) waits() []string {
	waited, what := e.Dependents.Blocking, "dependent"
	if waited == 0 {
		if waited, what = e.Dependents.Unmarked, "unmarked dependent"; waited == 0 {
			return nil
		}
	}
	var by []string
	for _, b := range e.Dependents.Blockers {
		by = append(by, b.Object+console.Prefixed(", ", b.BlockedBy))
	}
	return []string{"waits for " + console.Count(int(waited), what) + console.Prefixed(": ", console.Short(by, 1))}
}

func (e *explainer) becauseSaid() string {
	return console.Prefixed(", because ", strings.Join(e.Because, ", because "))
}
