package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// summary says in a sentence why the object exists.
func (e *explainer) summary(n *coppicev1.GraphNode) string {
	if e.State == stateTerminating {
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
					said = fmt.Sprintf("%s (%s until %s)", o.Owner, strings.ToLower(o.Class), console.Clock(*o.UnknownUntil, e.now()))
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
			waits = append(waits, "removes what is in it: "+left(n))
		default:
			blockers = append(blockers, f.Name+f.is.note())
		}
	}
	if e.Agent != nil {
		blockers = append(blockers, "its agent"+e.Agent.is.note()+" until "+console.Clock(e.Agent.Until, e.now()))
	}
	if e.Generation != nil {
		waits = append(waits, fmt.Sprintf("waits until its controller has seen generation %d (it has seen %d)", e.Generation.Awaited, e.Generation.Observed))
	}
	if e.ImportEnds != nil {
		waits = append(waits, "waits for the rest of its import, until "+console.Clock(*e.ImportEnds, e.now())+" at the latest")
	}
	if len(blockers) > 0 {
		waits = slices.Insert(waits, 0, "is blocked by "+console.Short(blockers, 3))
	}
	if len(waits) == 0 {
		waits = []string{"is about to be removed"}
	}
	return fmt.Sprintf("%s is being deleted%s since %s and %s", tree.KeyOfNode(n), how, console.Clock(*e.Since, e.now()), strings.Join(waits, ", and "))
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

// write writes the explanation for people.
func (e *explainer) write() error {
	_, err := fmt.Fprintln(e.stdout, console.Printable(e.Summary))
	if err != nil {
		return err
	}
	d := &description{session: e.session}
	if e.State == stateTerminating && len(e.Because) > 0 {
		d.field("Why", strings.Join(e.Because, ", because "))
	}
	if e.State != stateRemoved {
		d.section("Owners", e.ownerRows())
		dependents := "<none>"
		if e.Dependents.All > 0 {
			dependents = fmt.Sprintf("%s (%d blocking)", console.Count(int(e.Dependents.All), "object"), e.Dependents.Blocking)
		}
		d.field("Dependents", dependents)
		d.section("Finalizers", e.finalizerRows())
	}
	e.writeBlockers()
	if e.Dependents != nil && len(e.Dependents.Late) > 0 {
		d.section("Created since it was marked", e.lateRows())
	}
	if e.Agent != nil {
		d.field("Agent", e.Agent.says)
	}
	if len(e.Pending) > 0 {
		d.section("Pending", e.pendingRows())
	}
	if len(e.Causes) > 0 {
		d.section("Causes", e.causeRows())
	}
	if len(e.Skipped) > 0 {
		d.field("Skipped", history.Ranges(e.Skipped)+": these messages of the log are no commits of the realm, and have no effect; see coppice events")
	}
	return nil
}

// blockersSaid is how many blockers are listed.
const blockersSaid = 20

func (e *explainer) writeBlockers() {
	if e.Dependents == nil || len(e.Dependents.Blockers) == 0 {
		return
	}
	list := e.Dependents.Blockers
	_, _ = fmt.Fprintln(e.stdout, "Blocked by:")
	for _, b := range list[:min(len(list), blockersSaid)] {
		_, _ = fmt.Fprintf(e.stdout, "  %s\n", console.Printable(b.Object+console.Prefixed("  ", b.BlockedBy)))
	}
	switch more := len(list) - blockersSaid; {
	case e.Dependents.Truncated:
		_, _ = fmt.Fprintln(e.stdout, "  and more")
	case more > 0:
		_, _ = fmt.Fprintf(e.stdout, "  and %d more\n", more)
	}
}

func (e *explainer) lateRows() (rows [][]string) {
	for _, l := range e.Dependents.Late {
		rows = append(rows, []string{"by " + l.Actor, console.Count(l.Count, "dependent"), "the last, " + l.Last + ", at " + console.Clock(l.Time, e.now())})
	}
	return rows
}

func (e *explainer) ownerRows() (rows [][]string) {
	for _, o := range e.Owners {
		var says []string
		if o.Controller {
			says = append(says, "controller")
		}
		if o.Blocking {
			says = append(says, "blocking")
		}
		if len(says) == 0 {
			says = append(says, "owner")
		}
		class := strings.ToLower(o.Class) + console.Prefixed(": ", o.Why)
		if o.UnknownUntil != nil {
			class += " (kept until " + console.Clock(*o.UnknownUntil, e.now()) + ")"
		}
		rows = append(rows, []string{strings.Repeat("  ", o.Depth) + o.Owner, strings.Join(says, ", "), class})
	}
	return rows
}

func (e *explainer) finalizerRows() (rows [][]string) {
	for _, f := range e.Finalizers {
		row := []string{f.Name, f.says}
		if f.Since != nil {
			row = slices.Insert(row, 1, "for "+console.Age(e.now().Sub(*f.Since)))
		}
		rows = append(rows, row)
	}
	return rows
}

func (e *explainer) pendingRows() (rows [][]string) {
	for _, o := range e.Pending {
		due := "since " + console.Clock(o.Since, e.now())
		if o.Due != nil {
			due += ", due " + console.Clock(*o.Due, e.now())
		}
		rows = append(rows, []string{o.Object, o.What, due})
	}
	return rows
}

func (e *explainer) causeRows() (rows [][]string) {
	for _, c := range e.Causes {
		who := ""
		if c.Reason == "Requested" {
			who = c.Actor + ": " + c.Verb
		}
		rows = append(rows, []string{fmt.Sprint(c.Revision), console.Clock(c.Time, e.now()), c.Type, console.WithNamespace(c.Resource+"/"+c.Name, c.Namespace), who})
	}
	return rows
}
