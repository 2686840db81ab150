package deletion

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/plan"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// errNothingToPlan refuses a plan of no object.
var errNothingToPlan = errors.New("no object matches; there is nothing to plan")

// requestOf makes a request of victims that have names.
func requestOf(victims []victim, f deleteFlags) (*plan.Request, error) {
	if len(victims) == 0 {
		return nil, errNothingToPlan
	}
	r := &plan.Request{}
	for _, v := range victims {
		if v.collection {
			return nil, cli.UsageErrorf("a plan is of objects by name: 'coppice plan delete' lists those that match a selector")
		}
		if err := f.addTo(r, v); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// addTo adds a victim that has a name to a request.
func (f deleteFlags) addTo(r *plan.Request, v victim) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	return asUsage(r.Add(plan.Object{Kind: v.kind, Namespace: v.namespace, Name: v.name}, o.Propagation, o.GracePeriod))
}

// planVictims returns what a plan is of. In addition to what findVictims accepts, the arguments can name
// objects as TYPE/NAME, and a TYPE of which -l, --field-selector or --all selects.
func planVictims(ctx context.Context, s *cli.Session, args []string, f planFlags, failed *cli.Failures) (victims []victim, err error) {
	var keys, types []string
	for _, a := range args {
		if strings.Contains(a, "/") {
			keys = append(keys, a)
		} else {
			types = append(types, a)
		}
	}
	if f.selector == "" && f.Fields == "" && !f.every || len(keys) == 0 {
		return findVictims(ctx, s, args, f.deleteFlags, failed)
	}
	if len(types) == 0 {
		return nil, cli.UsageErrorf("-l, --field-selector and --all select objects of a TYPE: write it in addition to those that are named")
	}
	byName := f.deleteFlags
	byName.selector, byName.Fields, byName.every = "", "", false
	if victims, err = findVictims(ctx, s, keys, byName, failed); err != nil {
		return nil, err
	}
	for _, t := range types {
		more, err := findVictims(ctx, s, []string{t}, f.deleteFlags, failed)
		if err != nil {
			return nil, err
		}
		victims = append(victims, more...)
	}
	return victims, nil
}

// makePlan plans a request, at a revision that includes the last change of each of its objects.
func makePlan(ctx context.Context, s *cli.Session, r *plan.Request) (*client.Plan, error) {
	var revision uint64
	var missing []error
	for _, o := range r.Objects() {
		stored, err := s.Objects(o.Kind, o.Namespace).Get(ctx, o.Name, client.IncludeUninitialized(true))
		if errors.Is(err, client.ErrNotFound) {
			missing = append(missing, s.IfImplicit(ctx, o.Kind, o.Name, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		revision = max(revision, stored.GetMetadata().GetResourceVersion())
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	return s.Client.PlanDeletions(ctx, r.Parts, client.MinRevision(revision))
}

// requestMatching makes a request of the objects that victims name, and of those that the selectors match. With
// --ignore-not-found it leaves out those that do not exist. It ends when there are too many for a request.
func requestMatching(ctx context.Context, s *cli.Session, victims []victim, f deleteFlags) (*plan.Request, error) {
	f.Uninitialized = true
	r := &plan.Request{}
	for _, v := range victims {
		if v.collection {
			err := s.Each(ctx, cli.Target{Kind: v.kind}, f.Where, f.selector, func(o *coppicev1.Object) error {
				m := o.GetMetadata()
				return f.addTo(r, victim{kind: v.kind, namespace: m.GetNamespace(), name: m.GetName()})
			})
			if err != nil {
				return nil, err
			}
			continue
		}
		if f.ignoreNotFound {
			_, err := s.Objects(v.kind, v.namespace).Get(ctx, v.name, client.IncludeUninitialized(true))
			if errors.Is(err, client.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		if err := f.addTo(r, v); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// deletePlanFile carries out the plan in a file, if the deletion still does what the plan says.
func deletePlanFile(ctx context.Context, s *cli.Session, args []string, f deleteFlags) error {
	if len(args) > 0 || len(f.Files) > 0 || f.selector != "" || f.Fields != "" || f.every || f.plan != "" || f.dryRun != "" && f.dryRun != "none" {
		return cli.UsageErrorf("--plan-file says what to delete and how: leave out names, -f, -l, --field-selector, --all, --plan and --dry-run")
	}
	r := &plan.Request{}
	file, err := addDeletions(s, r, f.planFile)
	if err != nil {
		return err
	}
	f.plan = file.Plan.Plan
	d := &deletion{Session: s, f: f, failed: &cli.Failures{App: s.App}, dry: cli.DryMode(f.dryRun)}
	return d.carryOut(ctx, r)
}

// addDeletions adds the deletions of a plan file to a request.
func addDeletions(s *cli.Session, r *plan.Request, name string) (file plan.File, err error) {
	if file, err = plan.ReadFile(name); err != nil {
		return file, err
	}
	if file.Realm != s.Realm {
		return file, fmt.Errorf("%s is a plan of realm %s, and this is realm %s: name it with --realm", name, file.Realm, s.Realm)
	}
	if err := r.AddFile(&file, s.Kinds.All()); err != nil {
		return file, fmt.Errorf("%s: %w", name, asUsage(err))
	}
	return file, nil
}

// asUsage makes an error of a request a usage error if the command line can be corrected.
func asUsage(err error) error {
	var twice *plan.TwiceError
	if errors.As(err, &twice) {
		return &cli.UsageError{Err: err}
	}
	return err
}
