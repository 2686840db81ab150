package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/describe"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type describeFlags struct {
	where
	fileFlags
	selector   string
	showEvents bool
}

func (a *app) describeCommand() *cobra.Command {
	var f describeFlags
	c := &cobra.Command{
		Use:     "describe TYPE [NAME...] | TYPE PREFIX | TYPE/NAME... | -f FILE",
		GroupID: "objects",
		Short:   "Show details of objects: owners, dependents, finalizers, last events",
		Long: `Show the details of objects: the metadata; each owner, and whether it keeps the
object; the number of dependents; each finalizer, and whether a program receives its
calls; and the last events of the object. If no object has the NAME in TYPE NAME, the
objects are shown whose names begin with it.`,
		Example: `  coppice describe pods web-1 -n shop
  coppice describe pods -n shop -l app=web --show-events=false`,
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.describe(ctx, args, f)
		}),
	}
	f.where.flags(c, true)
	f.fileFlags.flags(c)
	f.uninitializedFlag(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	c.Flags().BoolVar(&f.showEvents, "show-events", true, "show the last events of the objects")
	a.clientFlags(c)
	a.offlineFlag(c)
	a.atFlag(c)
	return c
}

func (s *session) describe(ctx context.Context, args []string, f describeFlags) error {
	targets, err := s.targetsOrFiles(ctx, args, f.fileFlags, f.where)
	if err == nil {
		err = f.checkNamed(targets)
	}
	if err != nil {
		return err
	}
	if f.selector != "" && len(targets[0].names) > 0 {
		return wrong("-l selects objects; it does not go with names")
	}
	d := &describe.Describer{Reader: s.Reader, Consumers: s.Consumers(), W: s.stdout, Ink: s.ink()}
	if f.showEvents {
		d.EventTime = s.dial.Timeout
	}
	failed, n := failures{app: s.app}, 0
	one := func(k client.Kind, o *coppicev1.Object) error {
		node, err := s.node(ctx, k, o)
		if err != nil {
			return err
		}
		if n++; n > 1 {
			_, _ = fmt.Fprintln(s.stdout)
		}
		return d.Describe(ctx, k, o, node)
	}
	for _, t := range targets {
		err := s.each(ctx, t, f.where, f.selector, func(o *coppicev1.Object) error { return one(t.kind, o) })
		if errors.Is(err, client.ErrNotFound) && len(args) == 2 && len(t.names) == 1 { // TYPE PREFIX
			err = s.eachWithPrefix(ctx, t, f.where, err, func(o *coppicev1.Object) error { return one(t.kind, o) })
		}
		for _, err := range ignoring(err, false) {
			var refused *client.Error
			if !errors.As(err, &refused) {
				return err
			}
			failed.add(err)
		}
	}
	if n+failed.n == 0 {
		_, _ = fmt.Fprintln(s.stderr, "no objects match")
	}
	return failed.err("described", n+failed.n)
}

// eachWithPrefix calls visit for the objects whose names begin with that of the target. If there are none, it
// returns missing.
func (s *session) eachWithPrefix(ctx context.Context, t target, w where, missing error, visit func(*coppicev1.Object) error) error {
	prefix := t.names[0]
	t.names = nil
	err := s.each(ctx, t, w, "", func(o *coppicev1.Object) error {
		if !strings.HasPrefix(o.GetMetadata().GetName(), prefix) {
			return nil
		}
		missing = nil
		return visit(o)
	})
	return cmp.Or(err, missing)
}

// node reads the relations of an object, at its revision or a later one.
func (s *session) node(ctx context.Context, k client.Kind, o *coppicev1.Object) (*coppicev1.GraphNode, error) {
	m := o.GetMetadata()
	reply, err := s.objects(k, m.GetNamespace()).Resolve(ctx, []string{m.GetName()}, client.MinRevision(m.GetResourceVersion()))
	if err != nil {
		return nil, err
	}
	n := reply.GetNodes()[0]
	return n, s.AllUsers(ctx, n)
}
