package deletion

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/plan"
	"github.com/coppice-gc/coppice/internal/planname"
)

type planFlags struct {
	deleteFlags
	output string
	out    string // the plan file to write
	with   string // a plan file whose deletions are planned as well
}

// PlanCommand returns the command `coppice plan`.
func PlanCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "plan",
		GroupID: "objects",
		Short:   "Show what a command would do, without doing it",
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var f planFlags
	var d *cobra.Command
	d = &cobra.Command{
		Use:   "delete TYPE NAME... | TYPE/NAME... | -f FILE | [TYPE/NAME...] TYPE... -l SELECTOR | --all",
		Short: "Show what a deletion would do",
		Long: `Show what a deletion would remove, at once or after finalizers and agents are done;
which objects it would orphan, strip of references or keep; and what would block it.
Nothing is changed.

The plan has a name, which says how to delete and ends with a hash. 'coppice delete
--plan' deletes just so, if the deletion still does what the plan says. --out writes the
deletion and its plan to a file for review, which 'coppice delete --plan-file' carries out.
What to delete is named as for 'coppice delete'. -l and --all plan the deletion of the
objects that match now; an object that matches later is not deleted.

One plan can have objects of several kinds and namespaces, which are deleted in one commit:
name them as TYPE/NAME or with -f, add a TYPE for what -l or --all selects, with -A in all
namespaces. --with
adds the deletions of a plan file, with their own namespace, selector and --cascade. The
user who carries out the plan needs permission to delete objects of each kind in each
namespace; if one permission is missing, nothing is deleted.

Objects of one kind that are simply removed are counted; -o wide shows each.`,
		Example: `  coppice plan delete deploy/web -n shop --cascade=foreground
  coppice plan delete deploy/web -n shop -o json
  coppice plan delete pods -n shop -l app=web --out plan.json
  coppice plan delete -f web.yaml --ignore-not-found
  coppice plan delete deploy/web svc/web pods -l app=web -n shop --out plan.json
  coppice plan delete secret/web -n vault --with plan.json --out both.json`,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			if err := f.checkCascade(d, args); err != nil {
				return err
			}
			return planDeletion(ctx, s, args, f)
		}),
	}
	f.victimFlags(d)
	f.policyFlags(d)
	d.Flags().StringVarP(&f.output, "output", "o", cli.FormatText, "text, wide or json")
	d.Flags().StringVar(&f.out, "out", "", "write the deletion and its plan to this file")
	d.Flags().StringVar(&f.with, "with", "", "plan what this plan file deletes as well, in the same commit")
	cli.CompleteFlag(d, "output", planFormats()...)
	a.ClientFlags(d)
	a.OfflineFlag(d)
	a.AtFlag(d)
	c.AddCommand(d)
	return c
}

func planFormats() []string { return append(cli.TextFormats(), cli.FormatWide) }

func planDeletion(ctx context.Context, s *cli.Session, args []string, f planFlags) error {
	if err := cli.CheckFormat(f.output, planFormats()...); err != nil {
		return err
	}
	failed := &cli.Failures{App: s.App}
	victims, err := planVictims(ctx, s, args, f, failed)
	if err != nil || failed.Count > 0 {
		return cmp.Or(err, failed.Err("planned", len(victims)+failed.Count))
	}
	if f.out != "" && s.At != "" {
		return cli.UsageErrorf("--out does not go with --at: the past cannot be changed")
	}
	r, err := requestMatching(ctx, s, victims, f.deleteFlags)
	switch {
	case err != nil:
		return err
	case len(r.Parts) == 0 && f.out == "" && f.with == "":
		_, err := fmt.Fprintln(s.Stderr, "nothing to delete")
		return err
	case len(r.Parts) == 0:
		return errNothingToPlan
	}
	if f.with != "" {
		if _, err := addDeletions(s, r, f.with); err != nil {
			return err
		}
	}
	if len(r.Parts) > 1 && s.At != "" {
		return cli.UsageErrorf("--at shows the past of a deletion of objects of one kind in one namespace")
	}
	p, err := makePlan(ctx, s, r)
	if err != nil {
		return err
	}
	times, err := plan.FinalizerTimes(ctx, s.Reader, p)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := plan.WriteFile(f.out, s.Realm, s.Clock(), r, p, times); err != nil {
			return err
		}
	}
	if f.output == cli.FormatJSON {
		e := json.NewEncoder(s.Stdout)
		e.SetIndent("", "    ")
		return e.Encode(plan.JSONOf(p, times))
	}
	w := &plan.Writer{W: s.Stdout, Ink: s.Ink(), Reader: s.Reader, All: f.output == cli.FormatWide}
	if err := w.Write(ctx, p, times); err != nil {
		return err
	}
	said := ""
	switch command := r.Command(p.GetPlan(), cli.DefaultNamespace); {
	case f.out != "":
		said = plan.WrittenTo(f.out, p)
	case s.At != "": // the past cannot be changed
	case command != "":
		said = fmt.Sprintf("to do just that: %s\n", command)
	default:
		said = "to do just that, write a plan file: coppice plan delete ... --out FILE\n"
	}
	_, err = fmt.Fprint(s.Stdout, said)
	return err
}

// byPlan takes from the plan of --plan how to delete. It returns an error if a flag contradicts the plan.
func (f *deleteFlags) byPlan(flags *pflag.FlagSet) error {
	given, err := f.options()
	if err != nil {
		return err
	}
	n, refusal := planname.Parse(f.plan)
	switch {
	case refusal != nil:
		return cli.UsageErrorf("--plan: %s", strings.TrimPrefix(refusal.Message, "plan: "))
	case n.Policy == planname.Unprotect:
		return cli.UsageErrorf("--plan=%s is what follows from the removal of a protection, not a deletion: plan the deletion with 'coppice plan delete'", f.plan)
	case n.More != "":
		return cli.UsageErrorf("--plan=%s has preconditions, or options that differ between objects, which a command line cannot give: use its plan file with --plan-file, or plan again", f.plan)
	case flags.Changed("cascade") && string(given.Propagation) != n.Policy:
		return cli.UsageErrorf("--cascade=%s contradicts --plan=%s, %s: leave out --cascade, or plan again", f.cascade, f.plan, plannedPolicy(&n))
	}
	seconds := int64(-1)
	if given.GracePeriod != nil {
		seconds = int64(*given.GracePeriod / time.Second)
	}
	for _, name := range []string{"grace-period", "now", "force"} {
		if flag := flags.Lookup(name); flag.Changed && seconds != plannedGrace(&n) {
			return cli.UsageErrorf("--%s=%s contradicts --plan=%s, which plans %s: leave out --%s, or plan again", name, flag.Value, f.plan, plannedGraceText(&n), name)
		}
	}
	f.named = &n
	return nil
}

// plannedGrace returns the seconds that the name of a plan says, negative for the object's own.
func plannedGrace(n *planname.Name) int64 {
	if !n.HasGrace {
		return -1
	}
	return n.Grace
}

func plannedGraceText(n *planname.Name) string {
	if !n.HasGrace {
		return "each object's own grace period"
	}
	return fmt.Sprintf("--grace-period=%d", n.Grace)
}

func plannedPolicy(n *planname.Name) string {
	if n.Policy == "" {
		return "which leaves the policy to the objects and their kinds"
	}
	return "which plans --cascade=" + strings.ToLower(n.Policy)
}

// byPlan carries out the plan of --plan, if the deletion still does what the plan says.
func (d *deletion) byPlan(ctx context.Context, victims []victim) error {
	r, err := requestOf(victims, d.f)
	if err != nil {
		return err
	}
	return d.carryOut(ctx, r)
}

// carryOut sends the deletion of a request with its plan, and reports its outcome.
func (d *deletion) carryOut(ctx context.Context, r *plan.Request) error {
	goes, truncated := map[string]bool{}, false
	waits := d.f.wait && !d.dry.On()
	if waits {
		// Without a plan of its own, it waits for the objects that it deletes.
		ok, err := d.Optional(ctx, lookup.AboutTotals, func(ctx context.Context) error {
			p, err := makePlan(ctx, d.Session, r)
			maps.Copy(goes, plan.Removed(p))
			return err
		})
		if ctx.Err() != nil {
			return err
		}
		truncated = !ok
		d.quiet = true
	}
	results, err := d.Client.DeletePlanned(ctx, d.f.plan, r.Parts, client.DryRun(d.options.DryRun))
	if err != nil {
		return err
	}
	objects := r.Objects()
	if len(results) != len(objects) {
		return fmt.Errorf("the reply has %d results for %d objects; 'coppice get' shows what was deleted", len(results), len(objects))
	}
	for i, result := range results {
		if err := d.report(victim{kind: objects[i].Kind, namespace: objects[i].Namespace, name: objects[i].Name}, &result, result.Err); err != nil {
			return err
		}
	}
	if waits {
		for _, uid := range d.done {
			goes[uid] = true
		}
		if err := awaitRemoval(ctx, d.Session, slices.Sorted(maps.Keys(goes)), truncated, d.f.timeout); err != nil {
			return err
		}
	}
	return d.end()
}
