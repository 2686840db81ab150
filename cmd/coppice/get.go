package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type getFlags struct {
	where
	selector       string
	output         string
	noHeaders      bool
	ignoreNotFound bool
	watch          bool
	watchOnly      bool
}

func (a *app) getCommand() *cobra.Command {
	var f getFlags
	c := &cobra.Command{
		Use:     "get TYPE[,TYPE...] [NAME...] | TYPE/NAME...",
		GroupID: "objects",
		Short:   "Show objects",
		Long: `Get shows objects as kubectl does. In place of what a controller would make of
them it shows what matters to their deletion: whether they are being deleted,
what holds them, and who owns them.`,
		Example: `  coppice get deployments,pods -n shop
  coppice get pods -A -l app=web -o wide
  coppice get deploy/web -n shop -o yaml
  coppice get kinds`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.get(ctx, args, f)
		}),
	}
	f.flags(c, true)
	f.uninitializedFlag(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector: app=web,tier!=db,env in (a,b),!legacy")
	c.Flags().StringVarP(&f.output, "output", "o", formatTable, "table, wide, yaml, json or name")
	c.Flags().BoolVar(&f.noHeaders, "no-headers", false, "leave the headers of tables out")
	c.Flags().BoolVar(&f.ignoreNotFound, "ignore-not-found", false, "objects that are not there are no failure")
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "go on with what changes")
	c.Flags().BoolVar(&f.watchOnly, "watch-only", false, "only what changes, without what is there")
	completeFlag(c, "output", getFormats()...)
	a.clientFlags(c)
	return c
}

func (s *session) get(ctx context.Context, args []string, f getFlags) error {
	if err := checkFormat(f.output, getFormats()...); err != nil {
		return err
	}
	targets, err := s.targets(args)
	if err != nil {
		return err
	}
	if f.selector != "" && len(targets[0].names) > 0 {
		return wrong("-l selects objects; it does not go with names")
	}
	if f.watch || f.watchOnly {
		if len(targets) > 1 {
			return wrong("-w watches one type")
		}
		return s.watchTable(ctx, targets[0], f)
	}
	if len(targets) == 1 && client.ResourceOf(targets[0].kind) == client.KindsResource && f.output == formatTable && f.selector == "" {
		return s.getKinds(targets[0].names, f)
	}
	single := len(targets) == 1 && len(targets[0].names) == 1
	p := s.printer(f, len(targets) > 1, !single)
	n := 0
	var errs []error
	for _, t := range targets {
		err := s.each(ctx, t, f.where, f.selector, func(o *coppicev1.Object) error {
			n++
			return p.object(t.kind, o)
		})
		errs = append(errs, ignoring(err, f.ignoreNotFound)...)
	}
	if n > 0 || !single {
		errs = append(errs, p.end())
	}
	if table := f.output == formatTable || f.output == formatWide; n == 0 && table && errors.Join(errs...) == nil && !f.ignoreNotFound {
		var resources []string
		where := "found"
		for _, t := range targets {
			resources = append(resources, client.ResourceOf(t.kind).String())
			if f.of(t.kind) != "" {
				where = "in namespace " + f.namespace
			}
		}
		_, _ = fmt.Fprintf(s.stderr, "no %s %s\n", strings.Join(resources, ", "), where)
	}
	return errors.Join(errs...)
}

// ignoring are the errors of a joined one, without those that say that an
// object is not there, if it is so wanted.
func ignoring(err error, notFound bool) (errs []error) {
	if err == nil {
		return nil
	}
	for _, e := range joined(err) {
		if !notFound || !errors.Is(e, client.NotFound) {
			errs = append(errs, e)
		}
	}
	return errs
}

func (s *session) printer(f getFlags, qualified, list bool) printer {
	switch f.output {
	case formatName:
		return &namePrinter{w: s.stdout}
	case formatYAML, formatJSON:
		return &manifestPrinter{w: s.stdout, json: f.output == formatJSON, list: list}
	}
	return &tablePrinter{
		t: table{w: s.stdout}, s: s, wide: f.output == formatWide, namespace: f.all, qualified: qualified, headers: !f.noHeaders, now: s.now,
	}
}

// getKinds lists registered kinds, all or by name.
func (s *session) getKinds(names []string, f getFlags) error {
	var found []client.Kind
	missing := slices.Clone(names)
	for _, k := range s.kinds.All() {
		name := client.ResourceOf(k).String()
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(n string) bool { return n == name })
		found = append(found, k)
	}
	errs := []error{s.kindsTable(found, f.noHeaders)}
	for _, n := range missing {
		if !f.ignoreNotFound {
			errs = append(errs, &client.Error{Reason: client.NotFound, Message: fmt.Sprintf("%s %q not found", client.KindsResource, n)})
		}
	}
	return errors.Join(errs...)
}
