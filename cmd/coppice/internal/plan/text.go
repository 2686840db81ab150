package plan

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Writer writes plans for people.
type Writer struct {
	W      io.Writer
	Ink    terminal.Ink
	Reader *lookup.Reader
	All    bool // objects of one kind that are simply removed are not only counted
}

// Write writes a tree for each object that the plan deletes, and a summary.
func (w *Writer) Write(ctx context.Context, p *client.Plan, times []history.FinalizerTime) error {
	c := w.Reader.Consumers()
	d := tree.NewPlanDrawing(p, w.Reader.OwnerKey, func(h *coppicev1.PlanBlocker, resource string) string { return w.blocker(ctx, c, h, resource) }, w.All, w.Reader.Now())
	for _, t := range d.Trees() {
		if err := t.Write(w.W, w.Ink); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(w.W, summary(p, times))
	return err
}

// summary says how much a plan does, and what of it is not certain.
func summary(p *client.Plan, times []history.FinalizerTime) string {
	said := sum(p.GetCounts())
	if n := p.GetElsewhere(); n > 0 {
		said += fmt.Sprintf(", and %d in other namespaces or that this user may not get", n)
	}
	if n := dependOnOrder(p); n > 0 {
		said += fmt.Sprintf("; for %s the outcome depends on the order of work, and can be another", terminal.Count(n, "object"))
	}
	for _, b := range p.GetBrakes() {
		said += fmt.Sprintf("; the brake of %s lets %d of %d through until it is released", b.GetResource(), b.GetRoom(), b.GetDeletions())
	}
	for _, cycle := range p.GetCycles() {
		said += "\na cycle, in which a use is released: " + cycle
	}
	said = fmt.Sprintf("\n%s, at revision %d\n", said, p.GetRevision())
	for _, x := range times {
		said += took(x) + "\n"
	}
	return said
}

// FinalizerTimes returns how long the external finalizers that a plan needs took lately, if the user
// may read the log.
func FinalizerTimes(ctx context.Context, r *lookup.Reader, p *client.Plan) (times []history.FinalizerTime, err error) {
	var names []string
	for _, o := range p.GetObjects() {
		for _, b := range o.GetBlockers() {
			if b.GetType() == coppicev1.PlanBlocker_TYPE_FINALIZER && !slices.Contains(names, b.GetName()) && len(names) < maxTimedFinalizers {
				names = append(names, b.GetName())
			}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	_, err = r.Optional(ctx, lookup.AboutTimes, func(ctx context.Context) error {
		h, err := r.History(ctx)
		if err == nil {
			times, err = h.FinalizerTimes(ctx, names)
		}
		return err
	})
	return times, err
}

// maxTimedFinalizers is the maximum number of finalizers whose recent durations a plan shows.
const maxTimedFinalizers = 20

// took says how long a finalizer took lately.
func took(x history.FinalizerTime) string {
	age := func(d time.Duration) string {
		if d < time.Second {
			return "less than 1s"
		}
		return terminal.Age(d)
	}
	if x.Removals == 1 {
		return fmt.Sprintf("%s took %s when it was removed last", terminal.Printable(x.Name), age(x.Longest))
	}
	return fmt.Sprintf("%s took %s in the median of its last %d removals, %s in the longest", terminal.Printable(x.Name), age(x.Median), x.Removals, age(x.Longest))
}

// dependOnOrder is how many objects of a plan depend on the order of work.
func dependOnOrder(p *client.Plan) (n int) {
	for _, o := range p.GetObjects() {
		if o.GetDependsOnOrder() {
			n++
		}
	}
	return n
}

// blocker names what blocks a removal.
func (w *Writer) blocker(ctx context.Context, c *lookup.Consumers, h *coppicev1.PlanBlocker, resource string) string {
	switch h.GetType() {
	case coppicev1.PlanBlocker_TYPE_FINALIZER:
		return h.GetName() + c.Finalizer(ctx, h.GetName()).Note()
	case coppicev1.PlanBlocker_TYPE_AGENT:
		return "its agent" + c.Agent(ctx, client.ParseResource(resource)).Note()
	case coppicev1.PlanBlocker_TYPE_GENERATION:
		return "its controller, which has to see the deletion"
	case coppicev1.PlanBlocker_TYPE_DEPENDENTS:
		return terminal.Count(int(h.GetCount()), "dependent")
	case coppicev1.PlanBlocker_TYPE_USERS:
		switch {
		case h.GetName() == "": // the reply to a request for one namespace names none
			return terminal.Count(int(h.GetCount()), "user") + " in other namespaces"
		case h.GetCount() == 1:
			return "its user " + h.GetName()
		}
		return fmt.Sprintf("%d users, such as %s", h.GetCount(), h.GetName())
	case coppicev1.PlanBlocker_TYPE_UNEXAMINED:
		return fmt.Sprintf("%d dependents that unknown owners keep, more than can be examined", h.GetCount())
	case coppicev1.PlanBlocker_TYPE_PROTECTED:
		return terminal.Count(int(h.GetCount()), "protected dependent")
	case coppicev1.PlanBlocker_TYPE_PODS:
		said := "its Pods (removed first"
		if h.GetUntil() != 0 {
			said += ", until " + terminal.Clock(time.UnixMicro(h.GetUntil()), w.Reader.Now()) + " at the latest"
		}
		return said + ")"
	case coppicev1.PlanBlocker_TYPE_CONTENTS:
		return "its contents"
	case coppicev1.PlanBlocker_TYPE_OWNER:
		said := h.GetName() + " is unknown"
		if h.GetUntil() != 0 {
			said += ", until " + terminal.Clock(time.UnixMicro(h.GetUntil()), w.Reader.Now())
		}
		return said
	}
	return h.GetName()
}

// sum says how much a plan does.
func sum(c *coppicev1.PlanCounts) string {
	n := int(c.GetRemoved() + c.GetRemovedLater())
	var said []string
	if p := int(c.GetProtected()); p > 0 {
		said = append(said, fmt.Sprintf("%d protected", p))
	}
	said = append(said, terminal.Count(n, "object")+" removed")
	last := len(said) - 1
	switch later := int(c.GetRemovedLater()); later {
	case 0:
	case n:
		said[last] += " when others have done their part"
	default:
		said[last] += fmt.Sprintf(", %d of them when others have done their part", later)
	}
	for _, part := range []struct {
		n    uint32
		what string
	}{
		{c.GetBlocked(), "blocked"}, {c.GetOrphaned(), "orphaned"}, {c.GetStripped(), "stripped of references"}, {c.GetKept(), "kept"},
	} {
		if part.n > 0 {
			said = append(said, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(said, "; ")
}
