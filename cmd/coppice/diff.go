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
		Use:     "diff -f FILE | diff AT AT",
		GroupID: "objects",
		Short:   "Show what apply would change, or what has changed",
		Long: `Show the differences between the present objects and what 'coppice apply -f FILE'
would make of them. The server evaluates the manifests and changes nothing.

With two points of the past, show what has changed between them, in all namespaces or,
with -n, in one. A point is a revision, a time in RFC 3339, or how long ago, such as 2h or 0s.

The exit code is 0 without differences, 1 with differences, and 2 after an error.`,
		Example: `  coppice diff -f web.yaml -n shop
  coppice diff 120 135 -n shop
  coppice diff 2h 0s`,
	}
	run := a.in(func(ctx context.Context, s *session, args []string) error {
		if len(f.files) == 0 && len(args) > 0 {
			if len(args) != 2 {
				return wrong("name two points of the past, such as 120 135, or a file with -f")
			}
			return s.diffPast(ctx, args, namespace)
		}
		return s.diff(ctx, args, f, cmp.Or(namespace, defaultNamespace))
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
	f.matchingFlag(c)
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of objects that name none (default: default); if an object names another, nothing is compared; with two points of the past: compare this namespace only")
	a.clientFlags(c)
	a.offlineFlag(c)
	return c
}

func (s *session) diff(ctx context.Context, args []string, f fileFlags, namespace string) error {
	entries, err := s.entries(ctx, f, args)
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
		s.learn(e)
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
	var before *coppicev1.Object
	is := i.Object
	is.Status, is.Metadata.Generation = nil, 1 // as apply creates it
	if !i.unregistered {
		var err error
		objects := s.objects(i.kind, i.namespace)
		before, err = objects.Get(ctx, i.Object.GetMetadata().GetName(), client.IncludeUninitialized(true))
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			return nil, err
		}
		if is, err = objects.Apply(ctx, i.Object, client.DryRun(true)); err != nil {
			return nil, err
		}
		is.Metadata.Applied = nil // before has none
	}
	var was []byte
	if before != nil {
		var err error
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
	name := named(i.kind, i.namespace, i.Object.GetMetadata().GetName())
	return unified("live "+name, was, "applied "+name, will), nil
}

// named names an object in a difference.
func named(k client.Kind, namespace, name string) string {
	name = printing.Key(k, name)
	if namespace != "" {
		name += " (" + namespace + ")"
	}
	return console.Printable(name)
}

// unified returns the unified difference of two texts.
func unified(wasName string, was []byte, isName string, is []byte) []byte {
	_, text, _ := bytes.Cut(diff.Diff(wasName, was, isName, is), []byte("\n")) // without the line that names the program
	return text
}

// manifestText is the manifest of an object, as it is compared.
func manifestText(o *coppicev1.Object) ([]byte, error) {
	text, err := manifestfile.ToYAML(o)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written as YAML: %w", o.GetMetadata().GetName(), err)
	}
	return text, nil
}
