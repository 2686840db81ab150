package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/describe"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func (a *app) describeCommand() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "describe TYPE NAME... | TYPE/NAME...",
		GroupID: "objects",
		Short:   "Show details of an object: owners, dependents, finalizers, last events",
		Long: `Show the details of an object: its metadata; each owner, and whether it keeps the
object; the number of dependents; each finalizer, and whether a program receives its
calls; and the last events of the object.`,
		Example:           "  coppice describe pods web-1 -n shop",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeTargets(&w),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.describe(ctx, args, w)
		}),
	}
	w.flags(c, false)
	w.uninitializedFlag(c)
	a.clientFlags(c)
	a.offlineFlag(c)
	a.atFlag(c)
	return c
}

func (s *session) describe(ctx context.Context, args []string, w where) error {
	targets, err := s.targets(args)
	if err != nil {
		return err
	}
	d := &describe.Describer{Reader: s.Reader, Consumers: s.Consumers(), W: s.stdout, Ink: s.ink(), EventTime: s.dial.Timeout}
	failed := failures{app: s.app}
	n := 0
	for _, t := range targets {
		if len(t.names) == 0 {
			return wrong("no %s are named: write TYPE NAME or TYPE/NAME", client.ResourceOf(t.kind))
		}
		for _, name := range t.names {
			o, node, err := s.objectAndNode(ctx, t.kind, w, name)
			if err != nil {
				failed.add(err)
				continue
			}
			if n++; n > 1 {
				_, _ = fmt.Fprintln(s.stdout)
			}
			if err := d.Describe(ctx, t.kind, o, node); err != nil {
				return err
			}
		}
	}
	return failed.err("described", n+failed.n)
}

// objectAndNode reads an object, and its relations at the same revision or a later one.
func (s *session) objectAndNode(ctx context.Context, k client.Kind, w where, name string) (*coppicev1.Object, *coppicev1.GraphNode, error) {
	objects := s.objects(k, w.of(k))
	o, err := objects.Get(ctx, name, client.IncludeUninitialized(w.uninitialized))
	if err != nil {
		return nil, nil, err
	}
	reply, err := objects.Resolve(ctx, []string{name}, client.MinRevision(o.GetMetadata().GetResourceVersion()))
	if err != nil {
		return nil, nil, err
	}
	n := reply.GetNodes()[0]
	return o, n, s.AllUsers(ctx, n)
}
