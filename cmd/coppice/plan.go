package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type planFlags struct {
	deleteFlags
	output string
	all    bool
}

func (a *app) planCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "plan",
		GroupID: "objects",
		Short:   "Show what a command would do, without doing it",
		Args:    unknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var f planFlags
	d := &cobra.Command{
		Use:   "delete TYPE NAME... | TYPE/NAME...",
		Short: "Show what a deletion would do",
		Long: `Show what a deletion would remove, at once or after finalizers and agents are done;
which objects it would orphan, strip of references or keep; and what would block it.
Nothing is changed.

The plan has a hash. 'coppice delete --plan' deletes only if the deletion still does
what the plan says.

Objects of one kind that are simply removed are counted; --all shows each.`,
		Example: `  coppice plan delete deploy/web -n shop --cascade=foreground
  coppice plan delete deploy/web -n shop -o json`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.planDeletion(ctx, args, f)
		}),
	}
	f.where.flags(d, false)
	f.policyFlags(d)
	d.Flags().StringVarP(&f.output, "output", "o", formatText, "text or json")
	d.Flags().BoolVar(&f.all, "all", false, "show each object")
	completeFlag(d, "output", textFormats()...)
	a.clientFlags(d)
	a.offlineFlag(d)
	c.AddCommand(d)
	return c
}

// request is the deletion of objects of one kind, in one namespace: what a plan
// is of.
type request struct {
	kind    client.Kind
	objects client.ResourceClient
	names   []string
	options client.DeleteOptions
}

// request makes one request of victims.
func (s *session) request(victims []victim, f deleteFlags) (r request, err error) {
	if len(victims) == 0 {
		return r, wrong("nothing is named: write TYPE NAME, TYPE/NAME or -f FILE")
	}
	v := victims[0]
	r = request{kind: v.kind, objects: s.objects(v.kind, v.namespace)}
	for _, w := range victims {
		if w.collection || w.namespace != v.namespace || client.ResourceOf(w.kind) != client.ResourceOf(v.kind) {
			return r, wrong("a plan is of objects of one kind in one namespace, by name")
		}
		r.names = append(r.names, w.name)
	}
	r.options, err = f.options()
	return r, err
}

// plan plans a request, at a state in which its objects are as they are now.
func (r request) plan(ctx context.Context) (*client.Plan, error) {
	var revision uint64
	for _, name := range r.names {
		o, err := r.objects.Get(ctx, name, client.IncludeUninitialized(true))
		if err != nil {
			return nil, err
		}
		revision = max(revision, o.GetMetadata().GetResourceVersion())
	}
	return r.objects.Plan(ctx, r.names, r.options, client.MinRevision(revision))
}

func (s *session) planDeletion(ctx context.Context, args []string, f planFlags) error {
	if err := checkFormat(f.output, textFormats()...); err != nil {
		return err
	}
	failed := &failures{app: s.app}
	victims, err := s.victims(ctx, args, f.deleteFlags, failed)
	if err != nil || failed.n > 0 {
		return cmp.Or(err, failed.err("planned", len(victims)+failed.n))
	}
	r, err := s.request(victims, f.deleteFlags)
	if err != nil {
		return err
	}
	p, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if f.output == formatJSON {
		e := json.NewEncoder(s.stdout)
		e.SetIndent("", "    ")
		return e.Encode(planJSONOf(p))
	}
	c := s.Consumers()
	d := tree.NewPlanDrawing(p, s.OwnerKey, func(h *coppicev1.PlanBlocker, resource string) string { return s.planBlocker(ctx, c, h, resource) }, f.all)
	for _, t := range d.Trees() {
		if err := t.Write(s.stdout, s.ink()); err != nil {
			return err
		}
	}
	said := sum(p.GetCounts())
	if n := dependOnOrder(p); n > 0 {
		said += fmt.Sprintf("; for %s the outcome depends on the order of work, and can be another", console.Count(n, "object"))
	}
	_, err = fmt.Fprintf(s.stdout, "\n%s, at revision %d\nto do just that: %s\n", said, p.GetRevision(), f.command(r, p.GetPlan()))
	return err
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

// planBlocker names what blocks a removal.
func (s *session) planBlocker(ctx context.Context, c *lookup.Consumers, h *coppicev1.PlanBlocker, resource string) string {
	switch h.GetType() {
	case coppicev1.PlanBlocker_TYPE_FINALIZER:
		return h.GetName() + c.Finalizer(ctx, h.GetName()).Note()
	case coppicev1.PlanBlocker_TYPE_AGENT:
		return "its agent" + c.Agent(ctx, client.ParseResource(resource)).Note()
	case coppicev1.PlanBlocker_TYPE_GENERATION:
		return "its controller, which has to see the deletion"
	case coppicev1.PlanBlocker_TYPE_DEPENDENTS:
		return console.Count(int(h.GetCount()), "dependent")
	case coppicev1.PlanBlocker_TYPE_UNEXAMINED:
		return fmt.Sprintf("%d dependents that unknown owners keep, more than can be examined", h.GetCount())
	case coppicev1.PlanBlocker_TYPE_CONTENTS:
		return "what is in it"
	case coppicev1.PlanBlocker_TYPE_OWNER:
		said := h.GetName() + " is unknown"
		if h.GetUntil() != 0 {
			said += ", until " + console.Clock(time.UnixMicro(h.GetUntil()), s.now())
		}
		return said
	}
	return h.GetName()
}

// sum says how much a plan does.
func sum(c *coppicev1.PlanCounts) string {
	n := int(c.GetRemoved() + c.GetRemovedLater())
	said := []string{console.Count(n, "object") + " removed"}
	switch later := int(c.GetRemovedLater()); later {
	case 0:
	case n:
		said[0] += " when others have done their part"
	default:
		said[0] += fmt.Sprintf(", %d of them when others have done their part", later)
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

// command is the command that does just what was planned.
func (f planFlags) command(r request, plan string) string {
	said := "coppice delete"
	for _, name := range r.names {
		said += " " + shellWord(printing.Key(r.kind, name))
	}
	if r.kind.Namespaced() && f.namespace != defaultNamespace {
		said += " -n " + shellWord(f.namespace)
	}
	said += " --cascade=" + strings.ToLower(f.cascade)
	if f.grace >= 0 {
		said += fmt.Sprintf(" --grace-period=%d", f.grace)
	}
	return said + " --plan=" + plan
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/:@=,+-]+$`)

// shellWord is a word as a shell reads it: a name can be almost anything.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// planned deletes what a plan was made of, if that still does what it says.
func (d *deletion) planned(ctx context.Context, victims []victim) error {
	r, err := d.request(victims, d.f)
	if err != nil {
		return err
	}
	goes, truncated := map[string]bool{}, false
	if d.f.wait {
		// Without a plan of its own, it waits for the objects that it deletes.
		ok, err := d.Optional(ctx, lookup.AboutTotals, func(ctx context.Context) error {
			p, err := r.plan(ctx)
			maps.Copy(goes, removals(p))
			return err
		})
		if ctx.Err() != nil {
			return err
		}
		truncated = !ok
		d.quiet = true
	}
	results, err := r.objects.DeleteBatch(ctx, r.names, r.options, client.ByPlan(d.f.plan))
	if err != nil {
		return err
	}
	for i, result := range results {
		if err := d.report(victims[i], &result, result.Err); err != nil {
			return err
		}
	}
	if d.f.wait && !d.dry.on() {
		for _, uid := range d.done {
			goes[uid] = true
		}
		if err := d.awaitRemoval(ctx, slices.Sorted(maps.Keys(goes)), truncated, d.f.timeout); err != nil {
			return err
		}
	}
	return d.end()
}
