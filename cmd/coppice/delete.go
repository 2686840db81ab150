package main

import (
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
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type deleteFlags struct {
	where
	fileFlags
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
}

func (a *app) deleteCommand() *cobra.Command {
	var f deleteFlags
	c := &cobra.Command{
		Use:     "delete TYPE NAME... | TYPE/NAME... | -f FILE | TYPE -l SELECTOR | TYPE --all",
		GroupID: "objects",
		Short:   "Delete objects and their dependents",
		Long: `Delete objects. Their dependents are deleted afterwards, in the background; with
--cascade=foreground before them; with --cascade=orphan they are kept.

--dry-run=cascade shows the whole cascade, as 'coppice plan' does. --plan deletes
only if the deletion still does what the plan says; otherwise it is refused, and the
error names what has changed.

--wait waits until the objects and the expected cascade are gone, and prints how many
remain and what blocks them. Interrupting it does not stop the deletion.`,
		Example: `  coppice delete deploy/web -n shop --cascade=foreground --wait
  coppice delete pods -n shop -l app=web --dry-run=server
  coppice delete deploy/web -n shop --plan=8a3c8b8e61cf3e52@87
  coppice delete -f web.yaml --ignore-not-found`,
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.delete(ctx, args, f)
		}),
	}
	f.where.flags(c, true)
	f.fileFlags.flags(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	c.Flags().BoolVar(&f.every, "all", false, "all objects of the type")
	f.policyFlags(c)
	dryRunFlag(c, &f.dryRun)
	completeFlag(c, "dry-run", "server", "client", "cascade", "none")
	c.Flags().Lookup("dry-run").Usage = "server: evaluate the request and change nothing; client: only show what it names; cascade: plan all that would follow; or none"
	c.Flags().StringVar(&f.plan, "plan", "", "delete if that does what this plan says, which 'coppice plan' has shown")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until the objects and the expected cascade are gone")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long --wait waits; 0: as long as it takes")
	c.Flags().BoolVar(&f.ignoreNotFound, "ignore-not-found", false, "succeed if an object does not exist")
	a.clientFlags(c)
	return c
}

// policyFlags are those that say how to delete.
func (f *deleteFlags) policyFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.cascade, "cascade", "background", "deletion policy for dependents: background, foreground or orphan")
	c.Flags().Lookup("cascade").NoOptDefVal = "background"
	c.Flags().Int64Var(&f.grace, "grace-period", -1, "seconds that the agent gets to end the object; negative: the object's own grace period")
	c.Flags().BoolVar(&f.now, "now", false, "the same as --grace-period=1")
	c.Flags().BoolVar(&f.force, "force", false, "the same as --grace-period=0: agents get no time; finalizers still block")
	completeFlag(c, "cascade", "background", "foreground", "orphan")
}

// gracePeriod returns the seconds that --grace-period, --now and --force say; negative:
// what the object says.
func (f deleteFlags) gracePeriod() (int64, error) {
	switch {
	case f.now && f.force, (f.now || f.force) && f.grace > 0, f.now && f.grace == 0:
		return 0, wrong("--now, --force and --grace-period=%d exclude each other: choose one", f.grace)
	case f.now:
		return 1, nil
	case f.force:
		return 0, nil
	}
	return f.grace, nil
}

// options returns the options of the request.
func (f deleteFlags) options() (o client.DeleteOptions, err error) {
	policies := map[string]client.PropagationPolicy{"background": client.Background, "foreground": client.Foreground, "orphan": client.Orphan}
	policy, ok := policies[strings.ToLower(f.cascade)]
	if !ok {
		return o, wrong("--cascade=%s is not known; there are background, foreground and orphan", f.cascade)
	}
	o.Propagation = policy
	mode, err := dryRun(f.dryRun)
	if err != nil {
		return o, err
	}
	o.DryRun = mode.on()
	grace, err := f.gracePeriod()
	if err != nil {
		return o, err
	}
	if grace >= 0 {
		period := time.Duration(min(grace, math.MaxInt64/int64(time.Second))) * time.Second
		o.GracePeriod = &period
	}
	return o, nil
}

// victim is an object that is to be deleted, or, with a selector, all in a
// namespace that match it.
type victim struct {
	kind            client.Kind
	namespace, name string
	// at is where it was named, empty on the command line.
	at string
	// collection: name is empty, and those are meant that match.
	collection bool
	uid        string // if it is known
}

func (s *session) delete(ctx context.Context, args []string, f deleteFlags) error {
	if f.dryRun == "cascade" {
		f.dryRun = "none"
		return s.planDeletion(ctx, args, planFlags{deleteFlags: f, output: formatText})
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	failed := &failures{app: s.app}
	victims, err := s.victims(ctx, args, f, failed)
	if err != nil {
		return err
	}
	d := &deletion{session: s, f: f, options: options, failed: failed, dry: dryMode(f.dryRun)}
	if f.plan != "" {
		return d.planned(ctx, victims)
	}
	if f.wait && !d.dry.on() {
		return d.waiting(ctx, victims)
	}
	for _, v := range victims {
		if err := d.one(ctx, v); err != nil {
			return err
		}
	}
	return d.end()
}

// victims are what is to be deleted.
func (s *session) victims(ctx context.Context, args []string, f deleteFlags, failed *failures) ([]victim, error) {
	if len(f.files) > 0 {
		return s.fileVictims(args, f, failed)
	}
	targets, err := s.targets(args)
	if err != nil {
		return nil, err
	}
	var victims []victim
	for _, t := range targets {
		switch {
		case len(t.names) > 0 && (f.every || f.selector != ""):
			return nil, wrong("--all and -l select objects; they do not go with names")
		case len(t.names) > 0 && f.all:
			return nil, wrong("-A does not go with names: name the namespace with -n")
		case len(t.names) == 0 && !f.every && f.selector == "":
			return nil, wrong("no %s are named: write their names, -l SELECTOR or --all", client.ResourceOf(t.kind))
		case len(t.names) == 0:
			namespaces, err := s.namespacesOf(ctx, t, f)
			if err != nil {
				return nil, err
			}
			for _, ns := range namespaces {
				victims = append(victims, victim{kind: t.kind, namespace: ns, collection: true})
			}
		}
		for _, name := range t.names {
			victims = append(victims, victim{kind: t.kind, namespace: f.of(t.kind), name: name})
		}
	}
	return victims, nil
}

// fileVictims are the objects of manifests, the last first: what a manifest
// builds up is taken down in the other order.
func (s *session) fileVictims(args []string, f deleteFlags, failed *failures) ([]victim, error) {
	if f.every || f.selector != "" {
		return nil, wrong("--all and -l select objects; they do not go with -f")
	}
	entries, err := s.entries(f.fileFlags, args)
	if err != nil {
		return nil, err
	}
	var victims []victim
	for _, e := range entries {
		i, err := s.placeNamed(e, f.namespace)
		if err != nil {
			failed.add(err)
			continue
		}
		victims = append(victims, victim{kind: i.kind, namespace: i.namespace, name: e.Object.GetMetadata().GetName(), at: e.At.String()})
	}
	slices.Reverse(victims)
	return victims, nil
}

// namespacesOf are the namespaces in which to delete: with -A all that have
// such objects.
func (s *session) namespacesOf(ctx context.Context, t target, f deleteFlags) ([]string, error) {
	if !f.all || !t.kind.Namespaced() {
		return []string{f.of(t.kind)}, nil
	}
	found := map[string]bool{}
	f.uninitialized = true // they go as well
	err := s.each(ctx, t, f.where, f.selector, func(o *coppicev1.Object) error {
		found[o.GetMetadata().GetNamespace()] = true
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}

// deletion deletes, and tells what became of each.
type deletion struct {
	*session
	f       deleteFlags
	options client.DeleteOptions
	failed  *failures
	dry     dryMode
	quiet   bool
	done    []string // uids
}

// one deletes a victim. The error is one that ends everything.
func (d *deletion) one(ctx context.Context, v victim) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.dry == dryClient {
		return d.show(ctx, v)
	}
	objects := d.objects(v.kind, v.namespace)
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
	return d.report(v, r, err)
}

// show prints what a victim names, and deletes nothing.
func (d *deletion) show(ctx context.Context, v victim) error {
	objects := d.objects(v.kind, v.namespace)
	if !v.collection {
		o, err := objects.Get(ctx, v.name, client.IncludeUninitialized(true))
		return d.report(v, &client.DeleteResult{State: client.Removed, Object: o}, err)
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
		d.failed.add(err)
		return nil
	}
	m := r.Object.GetMetadata()
	d.done = append(d.done, m.GetUid())
	if d.quiet {
		return nil
	}
	name := m.GetName()
	if name == "" {
		name = v.name
	}
	what := "deleted"
	if r.State == client.Pending {
		what = "is being deleted" + console.Prefixed("; blocked by ", strings.Join(m.GetFinalizers(), ", "))
	}
	_, err = fmt.Fprintf(d.stdout, "%s %s%s\n", console.Printable(printing.Key(v.kind, name)), what, d.dry.suffix())
	return err
}

func (d *deletion) end() error {
	if len(d.done) == 0 && d.failed.n == 0 && !d.f.ignoreNotFound {
		_, _ = fmt.Fprintln(d.stderr, "nothing to delete")
	}
	return d.failed.err("deleted", len(d.done)+d.failed.n)
}

// waiting deletes, and waits until the objects and all that is deleted because of
// them are gone. Which objects these are can be read before the deletion only. That
// is optional: without it the deletion is sent all the same, and the command waits
// for the objects that it deleted itself.
func (d *deletion) waiting(ctx context.Context, victims []victim) error {
	d.quiet = true
	below, planned := tree.NewFamily(), map[string]bool(nil)
	ok, err := d.Optional(ctx, lookup.AboutTotals, func(ctx context.Context) error {
		uids, err := d.find(ctx, victims)
		if err == nil {
			below, err = d.Below(ctx, uids)
		}
		return err
	})
	if ok && below.Truncated {
		// There are more than are resolved at once. A plan has all of them.
		planned = d.plannedRemovals(ctx, victims)
	}
	if !ok {
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			d.Missing(lookup.AboutTotals, err)
		}
		below = tree.NewFamily()
	}
	for _, v := range victims {
		if err := d.one(ctx, v); err != nil {
			return err
		}
	}
	if len(d.done) > 0 {
		goes := below.Doomed(d.done, string(d.options.Propagation))
		for _, uid := range d.done {
			goes[uid] = true
		}
		maps.Copy(goes, planned)
		truncated := (below.Truncated && planned == nil || !ok) && d.options.Propagation != client.Orphan
		if err := d.awaitRemoval(ctx, slices.Sorted(maps.Keys(goes)), truncated, d.f.timeout); err != nil {
			return err
		}
	}
	return d.end()
}

// plannedRemovals returns the uids of the objects that a plan says will be removed, nil
// if there can be no plan of the victims. It is optional, and may take longer than
// other optional information, because a large plan does.
func (d *deletion) plannedRemovals(ctx context.Context, victims []victim) map[string]bool {
	r, err := d.request(victims, d.f)
	if err != nil {
		return nil
	}
	p, err := r.plan(ctx)
	if err != nil {
		return nil
	}
	return removals(p)
}

// removals returns the uids of the objects that a plan says will be removed.
func removals(p *client.Plan) map[string]bool {
	goes := map[string]bool{}
	for _, o := range p.GetObjects() {
		if o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED || o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED_LATER {
			goes[o.GetUid()] = true
		}
	}
	return goes
}

// find returns the uids of the objects that are to be deleted, and notes the uid of
// each victim that is named: another object that gets its name meanwhile is not
// deleted. An object that is not there is left to the deletion to report.
func (d *deletion) find(ctx context.Context, victims []victim) (uids []string, err error) {
	for i, v := range victims {
		objects := d.objects(v.kind, v.namespace)
		if !v.collection {
			o, err := objects.Get(ctx, v.name, client.IncludeUninitialized(true))
			switch {
			case errors.Is(err, client.ErrNotFound):
				continue
			case err != nil:
				return nil, err
			}
			victims[i].uid = o.GetMetadata().GetUid()
			uids = append(uids, victims[i].uid)
			continue
		}
		for o, err := range objects.List(ctx, client.LabelSelector(d.f.selector), client.IncludeUninitialized(true)) {
			if err != nil {
				return nil, err
			}
			uids = append(uids, o.GetMetadata().GetUid())
		}
	}
	return uids, nil
}
