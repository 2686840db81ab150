package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/planname"
)

type deleteFlags struct {
	cli.Where
	cli.FileFlags
	selector       string
	every          bool
	cascade        string
	grace          int64
	now, force     bool
	dryRun         string
	wait           bool
	timeout        time.Duration
	ignoreNotFound bool
	plan           string
	planFile       string
	named          *planname.Name // by --plan; it says how to delete
	ignoreErrors   bool
	reason         string
	output         string
}

// DeleteCommand returns the command `coppice delete`.
func DeleteCommand(a *cli.App) *cobra.Command {
	var f deleteFlags
	var c *cobra.Command
	c = &cobra.Command{
		Use:     "delete TYPE NAME... | TYPE/NAME... | -f FILE | TYPE -l SELECTOR | TYPE --all",
		GroupID: "objects",
		Short:   "Delete objects and their dependents",
		Long: `Delete objects. Their dependents are deleted afterwards, in the background; with
--cascade=foreground before them; with --cascade=orphan they are kept.
-f deletes the last object of the files first, Namespaces after their contents, and kinds
after their objects. With --ignore-not-found, also their kinds may be gone.
The type 'all' means every kind whose objects are in namespaces. That is more than in
kubectl: Secrets, ConfigMaps and PersistentVolumeClaims are deleted, too.

--dry-run=cascade shows the whole cascade, as 'coppice plan' does. --plan deletes
only if the deletion still does what the plan says; otherwise it is refused, and the
error names the objects that have changed since the plan. It does not name objects that
the plan had and the deletion no longer has: plan again, and compare. The plan's name
says the policy and the grace period, so that --plan needs neither --cascade nor
--grace-period. --plan-file does the same for a file that 'coppice plan delete --out' has
written, which also says what to delete.

--wait waits until the objects and the expected cascade are gone, and prints how many
remain and what blocks them. Interrupting it does not stop the deletion.

--ignore-read-errors deletes one object that cannot be read, because its body cannot be
decoded. None of its finalizers is called. It needs a reason, which the log keeps, and
permission for the verb deleteunreadable. The command is refused if the object can be
read, or if its body in the log can be decoded: then 'coppice rebuild' repairs it.`,
		Example: `  coppice delete deploy/web -n shop --cascade=foreground --wait
  coppice delete pods -n shop -l app=web --dry-run=server
  coppice delete deploy/web -n shop --plan=foreground-8a3c8b8e61cf3e52@87
  coppice delete --plan-file plan.json
  coppice delete -f web.yaml --ignore-not-found
  coppice delete cm/web -n shop --ignore-read-errors --reason "ticket 42"`,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			for _, decided := range []string{"cascade", "grace-period", "now", "force", "namespace", "all-namespaces"} {
				if f.planFile != "" && c.Flags().Changed(decided) {
					return cli.UsageErrorf("--%s does not go with --plan-file, which says what to delete and how", decided)
				}
			}
			if err := cli.CheckFormat(f.output, cli.FormatText, cli.FormatName); err != nil {
				return err
			}
			if err := f.checkCascade(c, args); err != nil {
				return err
			}
			if f.ignoreErrors {
				for _, other := range []string{"selector", "field-selector", "all", "filename", "cascade", "grace-period", "now", "force", "plan", "plan-file", "wait", "timeout", "ignore-not-found"} {
					if c.Flags().Changed(other) {
						return cli.UsageErrorf("--%s does not go with --ignore-read-errors, which deletes one object, and nothing else", other)
					}
				}
				return deleteUnreadable(ctx, s, args, f)
			}
			if f.reason != "" {
				return cli.UsageErrorf("--reason goes with --ignore-read-errors")
			}
			named := c.Flags().Changed("plan")
			switch {
			case f.dryRun == "cascade" && (named || f.planFile != ""):
				return cli.UsageErrorf("--dry-run=cascade makes a plan, and --plan and --plan-file name one: --plan with --dry-run=server says whether it is still what would be done")
			case named:
				if err := f.byPlan(c.Flags()); err != nil {
					return err
				}
			}
			return deleteObjects(ctx, s, args, f)
		}),
	}
	f.victimFlags(c)
	f.policyFlags(c)
	cli.DryRunFlag(c, &f.dryRun)
	cli.CompleteFlag(c, "dry-run", "server", "client", "cascade", "none")
	c.Flags().Lookup("dry-run").Usage = "server: evaluate the request and change nothing; client: only show what it names; cascade: plan all that would follow; or none"
	c.Flags().StringVar(&f.plan, "plan", "", "delete as this plan says, or nothing if the deletion would do something else by now; 'coppice plan delete' prints the plan")
	c.Flags().StringVar(&f.planFile, "plan-file", "", "carry out the plan in this file, which 'coppice plan delete --out' has written")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until the objects and the expected cascade are gone")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long --wait waits; 0: no limit")
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatText, "text, or name: only the names of the objects")
	cli.CompleteFlag(c, "output", cli.FormatText, cli.FormatName)
	c.Flags().BoolVar(&f.ignoreErrors, "ignore-read-errors", false, "delete one object that cannot be read, without calling its finalizers")
	c.Flags().StringVar(&f.reason, "reason", "", "with --ignore-read-errors: why, for the log (required)")
	a.ClientFlags(c)
	a.AtFlag(c)
	return c
}

// victimFlags adds the flags that say what to delete.
func (f *deleteFlags) victimFlags(c *cobra.Command) {
	f.Where.Flags(c, true)
	f.FileFlags.Flags(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	f.FieldFlag(c)
	c.Flags().BoolVar(&f.every, "all", false, "all objects of the type")
	c.Flags().BoolVar(&f.ignoreNotFound, "ignore-not-found", false, "succeed if an object does not exist")
}

// policies are the values of --cascade.
var policies = map[string]client.PropagationPolicy{"background": client.Background, "foreground": client.Foreground, "orphan": client.Orphan}

// checkCascade refuses --cascade with a blank before its value, which would be the name of an object.
func (f deleteFlags) checkCascade(c *cobra.Command, args []string) error {
	if !c.Flags().Changed("cascade") || f.cascade != "background" {
		return nil
	}
	for policy := range policies {
		if slices.Contains(args, policy) {
			return cli.UsageErrorf("--cascade takes its value after an equals sign: write --cascade=%[1]s, or TYPE/%[1]s if an object is meant that is called %[1]s", policy)
		}
	}
	return nil
}

// policyFlags adds the flags that say how to delete, such as --cascade.
func (f *deleteFlags) policyFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.cascade, "cascade", "background", "deletion policy for dependents: background, foreground or orphan")
	c.Flags().Lookup("cascade").NoOptDefVal = "background"
	c.Flags().Int64Var(&f.grace, "grace-period", -1, "seconds that the agent gets to end the object; negative: the object's own grace period")
	c.Flags().BoolVar(&f.now, "now", false, "the same as --grace-period=1")
	c.Flags().BoolVar(&f.force, "force", false, "the same as --grace-period=0: agents get no time; finalizers still block")
	cli.CompleteFlag(c, "cascade", slices.Sorted(maps.Keys(policies))...)
}

// gracePeriod returns the seconds that --grace-period, --now and --force say; negative:
// what the object says.
func (f deleteFlags) gracePeriod() (int64, error) {
	switch {
	case f.now && f.force, (f.now || f.force) && f.grace > 0, f.now && f.grace == 0:
		return 0, cli.UsageErrorf("--now, --force and --grace-period=%d exclude each other: choose one", f.grace)
	case f.now:
		return 1, nil
	case f.force:
		return 0, nil
	}
	return f.grace, nil
}

// options returns the options of the request.
func (f deleteFlags) options() (o client.DeleteOptions, err error) {
	policy, ok := policies[strings.ToLower(f.cascade)]
	if !ok {
		return o, cli.UsageErrorf("--cascade=%s is not known; there are background, foreground and orphan", f.cascade)
	}
	o.Propagation = policy
	if f.named != nil {
		o.Propagation = client.PropagationPolicy(f.named.Policy)
	}
	mode, err := cli.ParseDryRun(f.dryRun)
	if err != nil {
		return o, err
	}
	o.DryRun = mode.On()
	grace, err := f.gracePeriod()
	if err != nil {
		return o, err
	}
	if f.named != nil {
		grace = plannedGrace(f.named)
	}
	if grace >= 0 {
		period := time.Duration(min(grace, math.MaxInt64/int64(time.Second))) * time.Second
		o.GracePeriod = &period
	}
	return o, nil
}

func deleteObjects(ctx context.Context, s *cli.Session, args []string, f deleteFlags) error {
	if s.At != "" && f.dryRun != "cascade" {
		return cli.UsageErrorf("--at goes with --dry-run=cascade: the past cannot be changed")
	}
	if f.dryRun == "cascade" {
		f.dryRun = "none"
		return planDeletion(ctx, s, args, planFlags{deleteFlags: f, output: cli.FormatText})
	}
	if f.planFile != "" {
		return deletePlanFile(ctx, s, args, f)
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	failed := &cli.Failures{App: s.App}
	victims, err := findVictims(ctx, s, args, f, failed)
	if err == nil {
		victims, err = splitCollections(ctx, s, victims, f)
	}
	if err != nil {
		return err
	}
	d := &deletion{Session: s, f: f, options: options, failed: failed, dry: cli.DryMode(f.dryRun)}
	d.warnOfScope(victims)
	if f.plan != "" {
		return d.byPlan(ctx, victims)
	}
	if f.wait && !d.dry.On() {
		return d.waiting(ctx, victims)
	}
	for _, v := range victims {
		if err := d.one(ctx, v); err != nil {
			return err
		}
	}
	return d.end()
}

// warnOfScope warns, as kubectl does, that -n does not bound the deletion of objects that are in no namespace.
func (d *deletion) warnOfScope(victims []victim) {
	i := slices.IndexFunc(victims, func(v victim) bool { return !v.kind.Namespaced() })
	if i < 0 || d.GivenNamespace == "" || d.f.AllNamespaces {
		return
	}
	_, _ = fmt.Fprintf(d.Stderr, "warning: %s are not in namespaces: --namespace does not restrict which of them are deleted\n", client.ResourceOf(victims[i].kind))
}

// deletion deletes objects, and reports the result of each.
type deletion struct {
	*cli.Session
	f       deleteFlags
	options client.DeleteOptions
	failed  *cli.Failures
	dry     cli.DryMode
	quiet   bool
	done    []string // uids
}

// one deletes a victim. It returns only errors that end the command; it reports others itself.
func (d *deletion) one(ctx context.Context, v victim) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.dry == cli.DryClient {
		return d.show(ctx, v)
	}
	objects := d.Objects(v.kind, v.namespace)
	if v.collection {
		matching := func() ([]client.DeleteResult, error) {
			if d.f.selector == "" { // --all
				return objects.DeleteEverything(ctx, d.options)
			}
			return objects.DeleteCollection(ctx, d.f.selector, d.options)
		}
		results, err := matching()
		for _, r := range results {
			if err := d.report(v, &r, r.Err); err != nil {
				return err
			}
		}
		return err
	}
	options := d.options
	options.UID = v.uid
	r, err := objects.Delete(ctx, v.name, options)
	return d.report(v, r, d.IfImplicit(ctx, v.kind, v.name, err))
}

// show prints what a victim names, and deletes nothing.
func (d *deletion) show(ctx context.Context, v victim) error {
	objects := d.Objects(v.kind, v.namespace)
	if !v.collection {
		o, err := objects.Get(ctx, v.name, client.IncludeUninitialized(true))
		return d.report(v, &client.DeleteResult{State: client.Removed, Object: o}, d.IfImplicit(ctx, v.kind, v.name, err))
	}
	for o, err := range objects.List(ctx, client.LabelSelector(d.f.selector), client.IncludeUninitialized(true)) {
		if err != nil {
			return err
		}
		if err := d.report(v, &client.DeleteResult{State: client.Removed, Object: o}, nil); err != nil {
			return err
		}
	}
	return nil
}

// report says what became of an object.
func (d *deletion) report(v victim, r *client.DeleteResult, err error) error {
	if err != nil {
		var refused *client.Error
		switch {
		case d.f.ignoreNotFound && errors.Is(err, client.ErrNotFound):
			return nil
		case !errors.As(err, &refused):
			return err
		case v.at != "":
			err = fmt.Errorf("%s: %w", v.at, err)
		}
		d.failed.Add(err)
		return nil
	}
	m := r.Object.GetMetadata()
	d.done = append(d.done, m.GetUid())
	key := terminal.Printable(printing.Key(v.kind, cmp.Or(m.GetName(), v.name)))
	switch {
	case d.f.output == cli.FormatName:
		_, err = fmt.Fprintln(d.Stdout, key)
		return err
	case d.quiet:
		return nil
	}
	what := "deleted"
	if r.State == client.Pending {
		what = "is being deleted" + terminal.Prefixed("; blocked by ", terminal.Short(m.GetFinalizers(), terminal.Listed))
	}
	_, err = fmt.Fprintf(d.Stdout, "%s %s%s\n", key, what, d.dry.Suffix())
	return err
}

func (d *deletion) end() error {
	if len(d.done) == 0 && d.failed.Count == 0 && !d.f.ignoreNotFound {
		_, _ = fmt.Fprintln(d.Stderr, "nothing to delete")
	}
	return d.failed.Err("deleted", len(d.done)+d.failed.Count)
}
