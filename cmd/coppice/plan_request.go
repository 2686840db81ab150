package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client"
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
			return nil, wrong("a plan is of objects by name: 'coppice plan delete' lists those that match a selector")
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

// planVictims returns what a plan is of. In addition to what victims accepts, the arguments can name
// objects as TYPE/NAME, and a TYPE of which -l, --field-selector or --all selects.
func (s *session) planVictims(ctx context.Context, args []string, f planFlags, failed *failures) (victims []victim, err error) {
	var keys, types []string
	for _, a := range args {
		if strings.Contains(a, "/") {
			keys = append(keys, a)
		} else {
			types = append(types, a)
		}
	}
	if f.selector == "" && f.fields == "" && !f.every || len(keys) == 0 {
		return s.victims(ctx, args, f.deleteFlags, failed)
	}
	if len(types) == 0 {
		return nil, wrong("-l, --field-selector and --all select objects of a TYPE: write it in addition to those that are named")
	}
	byName := f.deleteFlags
	byName.selector, byName.fields, byName.every = "", "", false
	if victims, err = s.victims(ctx, keys, byName, failed); err != nil {
		return nil, err
	}
	for _, t := range types {
		more, err := s.victims(ctx, []string{t}, f.deleteFlags, failed)
		if err != nil {
			return nil, err
		}
		victims = append(victims, more...)
	}
	return victims, nil
}

// plan plans a request, at a revision that includes the last change of each of its objects.
func (s *session) plan(ctx context.Context, r *plan.Request) (*client.Plan, error) {
	var revision uint64
	var missing []error
	for _, o := range r.Objects() {
		stored, err := s.objects(o.Kind, o.Namespace).Get(ctx, o.Name, client.IncludeUninitialized(true))
		if errors.Is(err, client.ErrNotFound) {
			missing = append(missing, s.ifImplicit(ctx, o.Kind, o.Name, err))
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
	return s.c.PlanDeletions(ctx, r.Parts, client.MinRevision(revision))
}

// named makes a request of the objects that victims name, and of those that the selectors match. With
// --ignore-not-found it leaves out those that do not exist. It ends when there are too many for a request.
func (s *session) named(ctx context.Context, victims []victim, f deleteFlags) (*plan.Request, error) {
	f.uninitialized = true
	r := &plan.Request{}
	for _, v := range victims {
		if v.collection {
			err := s.each(ctx, target{kind: v.kind}, f.where, f.selector, func(o *coppicev1.Object) error {
				m := o.GetMetadata()
				return f.addTo(r, victim{kind: v.kind, namespace: m.GetNamespace(), name: m.GetName()})
			})
			if err != nil {
				return nil, err
			}
			continue
		}
		if f.ignoreNotFound {
			_, err := s.objects(v.kind, v.namespace).Get(ctx, v.name, client.IncludeUninitialized(true))
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
func (s *session) deletePlanFile(ctx context.Context, args []string, f deleteFlags) error {
	if len(args) > 0 || len(f.files) > 0 || f.selector != "" || f.fields != "" || f.every || f.plan != "" || f.dryRun != "" && f.dryRun != "none" {
		return wrong("--plan-file says what to delete and how: leave out names, -f, -l, --field-selector, --all, --plan and --dry-run")
	}
	r := &plan.Request{}
	file, err := s.addDeletions(r, f.planFile)
	if err != nil {
		return err
	}
	f.plan = file.Plan.Plan
	d := &deletion{session: s, f: f, failed: &failures{app: s.app}, dry: dryMode(f.dryRun)}
	return d.carryOut(ctx, r)
}

// addDeletions adds the deletions of a plan file to a request.
func (s *session) addDeletions(r *plan.Request, name string) (file plan.File, err error) {
	if file, err = plan.ReadFile(name); err != nil {
		return file, err
	}
	if file.Realm != s.realm {
		return file, fmt.Errorf("%s is a plan of realm %s, and this is realm %s: name it with --realm", name, file.Realm, s.realm)
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
		return &usageError{err: err}
	}
	return err
}
