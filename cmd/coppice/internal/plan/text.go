package plan

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
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
	d := tree.NewPlanDrawing(p, Words(ctx, w.Reader), w.All)
	for _, t := range d.Trees() {
		if err := t.Write(w.W, w.Ink); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(w.W, summary(p, times))
	return err
}

// Words returns what describes the objects of plans. It reads the consumers of finalizers and agents when it needs them, and
// is not safe for concurrent use.
func Words(ctx context.Context, r *lookup.Reader) tree.PlanWords {
	c := r.Consumers()
	return tree.PlanWords{
		OwnerKey: r.OwnerKey, Now: r.Now(),
		Blocker: func(h *coppicev1.PlanBlocker, resource string) string { return blocker(ctx, c, h, resource, r.Now()) },
	}
}

// summary says how much a plan does, and what of it is not certain.
func summary(p *client.Plan, times []history.FinalizerTime) string {
	said := Sum(p)
	for _, doubt := range doubts(p) {
		said += "; " + doubt
	}
	for _, cycle := range p.GetCycles() {
		said += "\n" + released + cycle
	}
	said = fmt.Sprintf("\n%s, at revision %d\n", said, p.GetRevision())
	for _, x := range times {
		said += took(x) + "\n"
	}
	return said
}

// Notes are what else is to be known of a plan, each a sentence.
func Notes(p *client.Plan, times []history.FinalizerTime) (notes []string) {
	for _, doubt := range doubts(p) {
		notes = append(notes, strings.ToUpper(doubt[:1])+doubt[1:]+".")
	}
	for _, cycle := range p.GetCycles() {
		notes = append(notes, strings.ToUpper(released[:1])+released[1:]+cycle)
	}
	for _, x := range times {
		notes = append(notes, took(x)+".")
	}
	return notes
}

// Waits says which of the objects of a plan would wait for a program that receives no calls, or whose calls fail: a sentence
// for each finalizer and each agent, the one with the most objects first.
func Waits(ctx context.Context, r *lookup.Reader, p *client.Plan) (list []string) {
	type waiting struct {
		on      string
		objects int
		of      func(context.Context, *lookup.Consumers) lookup.Consumer
	}
	by := map[string]*waiting{}
	for _, o := range p.GetObjects() {
		for _, b := range o.GetBlockers() {
			w := waiting{}
			switch b.GetType() {
			case coppicev1.PlanBlocker_TYPE_FINALIZER:
				w.on = "the finalizer " + terminal.Printable(b.GetName())
				w.of = func(ctx context.Context, c *lookup.Consumers) lookup.Consumer { return c.Finalizer(ctx, b.GetName()) }
			case coppicev1.PlanBlocker_TYPE_AGENT:
				w.on = "the agent of " + o.GetResource()
				w.of = func(ctx context.Context, c *lookup.Consumers) lookup.Consumer {
					return c.Agent(ctx, client.ParseResource(o.GetResource()))
				}
			default:
				continue
			}
			if by[w.on] == nil {
				by[w.on] = &w
			}
			by[w.on].objects++
		}
	}
	most := slices.SortedFunc(maps.Values(by), func(a, b *waiting) int { return cmp.Or(cmp.Compare(b.objects, a.objects), cmp.Compare(a.on, b.on)) })
	c := r.Consumers()
	for _, w := range most[:min(len(most), maxTimedFinalizers)] {
		if is := w.of(ctx, c); is.Broken() {
			verb := "wait"
			if w.objects == 1 {
				verb = "waits"
			}
			list = append(list, fmt.Sprintf("%s then %s for %s: %s.", terminal.Count(w.objects, "object"), verb, w.on, is.About()))
		}
	}
	return list
}

const released = "a cycle, in which a use is released: "

// Sum says how much a plan does.
func Sum(p *client.Plan) string {
	said := sum(p.GetCounts())
	if n := p.GetElsewhere(); n > 0 {
		said += fmt.Sprintf(", and %d in other namespaces or that this user may not get", n)
	}
	return said
}

// doubts say what of a plan is not certain, or waits.
func doubts(p *client.Plan) (list []string) {
	if n := dependOnOrder(p); n > 0 {
		list = append(list, fmt.Sprintf("for %s the outcome depends on the order of work, and can be another", terminal.Count(n, "object")))
	}
	for _, b := range p.GetBrakes() {
		list = append(list, fmt.Sprintf("the brake of %s lets %d of %d through until it is released", b.GetResource(), b.GetRoom(), b.GetDeletions()))
	}
	return list
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
func blocker(ctx context.Context, c *lookup.Consumers, h *coppicev1.PlanBlocker, resource string, now time.Time) string {
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
			said += ", until " + terminal.Clock(time.UnixMicro(h.GetUntil()), now) + " at the latest"
		}
		return said + ")"
	case coppicev1.PlanBlocker_TYPE_CONTENTS:
		return "its contents"
	case coppicev1.PlanBlocker_TYPE_OWNER:
		said := h.GetName() + " is unknown"
		if h.GetUntil() != 0 {
			said += ", until " + terminal.Clock(time.UnixMicro(h.GetUntil()), now)
		}
		return said
	}
	return h.GetName()
}

// sum says how many objects have each outcome.
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
