package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func (a *app) diffCommand() *cobra.Command {
	var f fileFlags
	var namespace string
	c := &cobra.Command{
		Use:     "diff -f FILE",
		GroupID: "objects",
		Short:   "Show what apply would change",
		Long: `Show the differences between the present objects and what 'coppice apply -f FILE'
would make of them. The server evaluates the manifests and changes nothing.

The exit code is 0 without differences, 1 with differences, and 2 after an error.`,
		Example: `  coppice diff -f web.yaml -n shop`,
	}
	run := a.in(func(ctx context.Context, s *session, args []string) error {
		return s.diff(ctx, args, f, namespace)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		var usage *usageError
		var code *exitError
		if err == nil || errors.As(err, &usage) || errors.As(err, &code) {
			return err
		}
		return &exitError{code: 2, err: err}
	}
	f.flags(c)
	c.Flags().StringVarP(&namespace, "namespace", "n", defaultNamespace, "namespace of objects that name none")
	a.clientFlags(c)
	return c
}

func (s *session) diff(ctx context.Context, args []string, f fileFlags, namespace string) error {
	entries, err := s.entries(f, args)
	if err != nil {
		return err
	}
	failed, differ := failures{app: s.app}, false
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		i, err := s.placeNamed(e, namespace)
		if err != nil {
			failed.add(err)
			continue
		}
		text, err := s.diffOne(ctx, i)
		if err != nil {
			failed.add(i.failed(err))
			continue
		}
		differ = differ || len(text) > 0
		if _, err := s.stdout.Write(text); err != nil {
			return err
		}
	}
	if err := failed.err("compared", len(entries)); err != nil {
		return err
	}
	if differ {
		return &exitError{code: 1}
	}
	return nil
}

// diffOne returns the differences between an object and what apply would make of it,
// nothing if there are none.
func (s *session) diffOne(ctx context.Context, i item) ([]byte, error) {
	objects := s.objects(i.kind, i.namespace)
	before, err := objects.Get(ctx, i.Object.GetMetadata().GetName(), client.IncludeUninitialized(true))
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return nil, err
	}
	is, err := objects.Apply(ctx, i.Object, client.DryRun(true))
	if err != nil {
		return nil, err
	}
	var was []byte
	if before != nil {
		if was, err = manifestText(before); err != nil {
			return nil, err
		}
	} else {
		// A dry run invents what the server would set.
		is.Metadata.Uid, is.Metadata.CreationTimestamp, is.Metadata.ResourceVersion = "", nil, 0
	}
	will, err := manifestText(is)
	if err != nil || bytes.Equal(was, will) {
		return nil, err
	}
	name := printing.Key(i.kind, cmp.Or(i.Object.GetMetadata().GetName(), is.GetMetadata().GetName()))
	if i.namespace != "" {
		name += " (" + i.namespace + ")"
	}
	name = console.Printable(name)
	text := diff.Diff("live "+name, was, "applied "+name, will)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the line that names the program
	return text, nil
}

// manifestText is the manifest of an object, as it is compared.
func manifestText(o *coppicev1.Object) ([]byte, error) {
	text, err := manifestfile.ToYAML(o)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written as YAML: %w", o.GetMetadata().GetName(), err)
	}
	return text, nil
}
