package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
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
					said = fmt.Sprintf("%s (%s until %s)", o.Owner, strings.ToLower(o.Class), terminal.Clock(*o.UnknownUntil, e.Now()))
				}
				list = append(list, said)
			}
		}
		return list
	}
	key := tree.KeyOfNode(n)
	solid, unknown := own(coppicev1.OwnerClass_OWNER_CLASS_SOLID), own(coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN)
	m := n.GetObject().GetMetadata()
	expiry := terminal.Prefixed("; it ", printing.Expiry(m, e.Now()))
	for _, is := range e.Notices {
		if is.Due != nil {
			expiry += fmt.Sprintf("; expiry policy %s deletes it at %s", is.Policy, terminal.Clock(*is.Due, e.Now()))
		}
	}
	switch {
	case n.GetPodsUntil() != 0:
		return fmt.Sprintf("%s is about to be deleted: its namespace is being deleted, and waits for its Pods first, until %s at the latest",
			key, terminal.Clock(time.UnixMicro(n.GetPodsUntil()), e.Now()))
	case e.ExpiresAt != nil && !e.ExpiresAt.After(e.Now()) && e.Protected != "":
		return fmt.Sprintf("%s is not deleted, although it %s: it is protected (%s)", key, printing.Expiry(m, e.Now()), e.Protected)
	case e.ExpiresAt != nil && !e.ExpiresAt.After(e.Now()) && n.GetBraked():
		return fmt.Sprintf("%s is about to be deleted: it %s, and the brake of %s, which is tripped, pauses its deletion until 'coppice brake release %s'",
			key, printing.Expiry(m, e.Now()), n.GetResource(), n.GetResource())
	case e.ExpiresAt != nil && !e.ExpiresAt.After(e.Now()):
		return fmt.Sprintf("%s is about to be deleted: it %s", key, printing.Expiry(m, e.Now()))
	case len(solid) == 1:
		return fmt.Sprintf("%s is not deleted: %s owns it", key, solid[0]) + expiry
	case len(solid) > 1:
		return fmt.Sprintf("%s is not deleted: %s own it", key, terminal.Short(solid, 3)) + expiry
	case len(unknown) > 0:
		return fmt.Sprintf("%s is not deleted: %s may own it", key, terminal.Short(unknown, 3))
	case e.Protected != "" && len(e.Owners) > 0:
		return fmt.Sprintf("%s is not deleted, although no owner keeps it: it is protected (%s)", key, e.Protected)
	case e.Protected != "":
		return fmt.Sprintf("%s is not deleted: it has no owners, and is protected (%s)", key, e.Protected)
	case n.GetBraked():
		return fmt.Sprintf("%s is about to be deleted: none of its owners keeps it, and the brake of %s, which is tripped, pauses its deletion until 'coppice brake release %s'",
			key, n.GetResource(), n.GetResource())
	case len(e.Owners) == 0:
		return key + " is not deleted: it has no owners, and no client has deleted it" + expiry
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
				waits = append(waits, "removes the references of "+terminal.Count(int(e.Dependents.All), "dependent"))
			}
		case lifecycle.FinalizerInUse:
			waits = append(waits, "waits for "+lookup.Users(n))
		case lifecycle.FinalizerProtection:
			waits = append(waits, "removes the protection that it gives")
		case lifecycle.FinalizerContents:
			if n.GetPodsUntil() != 0 {
				waits = append(waits, "removes its Pods first, until "+terminal.Clock(time.UnixMicro(n.GetPodsUntil()), e.Now())+" at the latest")
			}
			waits = append(waits, "removes what is in it: "+lookup.LeftText(n, e.Contents))
		default:
			blockers = append(blockers, f.Name+f.is.Note())
		}
	}
	if e.Agent != nil {
		blockers = append(blockers, lookup.AgentText(e.Agent.is.Note(), e.Agent.Until, e.Now()))
	}
	if e.Generation != nil {
		waits = append(waits, fmt.Sprintf("waits until its controller has seen generation %d (it has seen %d)", e.Generation.Awaited, e.Generation.Observed))
	}
	if e.ImportEnds != nil {
		waits = append(waits, "waits for the rest of its import, until "+terminal.Clock(*e.ImportEnds, e.Now())+" at the latest")
	}
	if len(blockers) > 0 {
		waits = slices.Insert(waits, 0, "is blocked by "+terminal.Short(blockers, 3))
	}
	if len(e.WaitsForProtected) > 0 {
		waits = append(waits, "waits for "+terminal.Short(e.WaitsForProtected, 3)+", protected from deletion")
	}
	if len(waits) == 0 {
		waits = []string{"is about to be removed"}
	}
	return fmt.Sprintf("%s is being deleted%s since %s and %s", tree.KeyOfNode(n), how, terminal.Clock(*e.Since, e.Now()), strings.Join(waits, ", and "))
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
		by = append(by, b.Object+terminal.Prefixed(", ", b.BlockedBy))
	}
	return []string{"waits for " + terminal.Count(int(waited), what) + terminal.Prefixed(": ", terminal.Short(by, 1))}
}

func (e *explainer) becauseSaid() string {
	return terminal.Prefixed(", because ", strings.Join(e.Because, ", because "))
}
