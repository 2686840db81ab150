package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/describe"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type describeFlags struct {
	cli.Where
	cli.FileFlags
	selector   string
	showEvents bool
}

// DescribeCommand returns the command `coppice describe`.
func DescribeCommand(a *cli.App) *cobra.Command {
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
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return describeObjects(ctx, s, args, f)
		}),
	}
	f.Where.Flags(c, true)
	f.FileFlags.Flags(c)
	f.UninitializedFlag(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	c.Flags().BoolVar(&f.showEvents, "show-events", true, "show the last events of the objects")
	a.ClientFlags(c)
	a.OfflineFlag(c)
	a.AtFlag(c)
	return c
}

func describeObjects(ctx context.Context, s *cli.Session, args []string, f describeFlags) error {
	targets, err := s.TargetsOrFiles(ctx, args, f.FileFlags, f.Where)
	if err == nil {
		err = f.CheckNamed(targets)
	}
	if err != nil {
		return err
	}
	if f.selector != "" && len(targets[0].Names) > 0 {
		return cli.UsageErrorf("-l selects objects; it does not go with names")
	}
	d := &describe.Describer{Reader: s.Reader, Consumers: s.Consumers(), W: s.Stdout, Ink: s.Ink()}
	if f.showEvents {
		d.EventTime = s.Dial.Timeout
	}
	failed, n := cli.Failures{App: s.App}, 0
	one := func(k client.Kind, o *coppicev1.Object) error {
		node, err := nodeOfObject(ctx, s, k, o)
		if err != nil {
			return err
		}
		if n++; n > 1 {
			_, _ = fmt.Fprintln(s.Stdout)
		}
		return d.Describe(ctx, k, o, node)
	}
	for _, t := range targets {
		err := s.Each(ctx, t, f.Where, f.selector, func(o *coppicev1.Object) error { return one(t.Kind, o) })
		if errors.Is(err, client.ErrNotFound) && len(args) == 2 && len(t.Names) == 1 { // TYPE PREFIX
			err = eachWithPrefix(ctx, s, t, f.Where, err, func(o *coppicev1.Object) error { return one(t.Kind, o) })
		}
		for _, err := range cli.IgnoreNotFound(err, false) {
			var refused *client.Error
			if !errors.As(err, &refused) {
				return err
			}
			failed.Add(err)
		}
	}
	if n+failed.Count == 0 {
		_, _ = fmt.Fprintln(s.Stderr, "no objects match")
	}
	return failed.Err("described", n+failed.Count)
}

// eachWithPrefix calls visit for the objects whose names begin with that of the target. If there are none, it
// returns missing.
func eachWithPrefix(ctx context.Context, s *cli.Session, t cli.Target, w cli.Where, missing error, visit func(*coppicev1.Object) error) error {
	prefix := t.Names[0]
	t.Names = nil
	err := s.Each(ctx, t, w, "", func(o *coppicev1.Object) error {
		if !strings.HasPrefix(o.GetMetadata().GetName(), prefix) {
			return nil
		}
		missing = nil
		return visit(o)
	})
	return cmp.Or(err, missing)
}

// nodeOfObject reads the relations of an object, at its revision or a later one.
func nodeOfObject(ctx context.Context, s *cli.Session, k client.Kind, o *coppicev1.Object) (*coppicev1.GraphNode, error) {
	m := o.GetMetadata()
	reply, err := s.Objects(k, m.GetNamespace()).Resolve(ctx, []string{m.GetName()}, client.MinRevision(m.GetResourceVersion()))
	if err != nil {
		return nil, err
	}
	n := reply.GetNodes()[0]
	return n, s.AllUsers(ctx, n)
}
