package write

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// DiffCommand returns the command `coppice diff`.
func DiffCommand(a *cli.App) *cobra.Command {
	var f cli.FileFlags
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
	run := a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
		if len(f.Files) == 0 && len(args) > 0 {
			if len(args) != 2 {
				return cli.UsageErrorf("name two points of the past, such as 120 135, or a file with -f")
			}
			return diffPast(ctx, s, args, namespace)
		}
		return diffFiles(ctx, s, args, f, cmp.Or(namespace, cli.DefaultNamespace))
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		var usage *cli.UsageError
		var code *cli.ExitError
		if err == nil || errors.As(err, &usage) || errors.As(err, &code) {
			return err
		}
		return &cli.ExitError{Code: 2, Err: err}
	}
	f.Flags(c)
	f.MatchingFlag(c)
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of objects that name none (default: default); if an object names another, nothing is compared; with two points of the past: compare this namespace only")
	a.ClientFlags(c)
	a.OfflineFlag(c)
	return c
}

func diffFiles(ctx context.Context, s *cli.Session, args []string, f cli.FileFlags, namespace string) error {
	entries, err := s.Entries(ctx, f, args)
	if err != nil {
		return err
	}
	failed, differ := cli.Failures{App: s.App}, false
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		i, err := s.PlaceNamed(e, namespace)
		if err != nil {
			failed.Add(err)
			continue
		}
		text, err := diffOne(ctx, s, i)
		if err != nil {
			failed.Add(i.Failed(err))
			continue
		}
		s.LearnKind(e)
		differ = differ || len(text) > 0
		if _, err := s.Stdout.Write(text); err != nil {
			return err
		}
	}
	if err := failed.Err("compared", len(entries)); err != nil {
		return err
	}
	if differ {
		return &cli.ExitError{Code: 1}
	}
	return nil
}

// diffOne returns the differences between an object and what apply would make of it,
// nothing if there are none.
func diffOne(ctx context.Context, s *cli.Session, i cli.Item) ([]byte, error) {
	var before *coppicev1.Object
	is := i.Object
	is.Status, is.Metadata.Generation = nil, 1 // as apply creates it
	if !i.Unregistered {
		var err error
		objects := s.Objects(i.Kind, i.Namespace)
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
	name := named(i.Kind, i.Namespace, i.Object.GetMetadata().GetName())
	return unified("live "+name, was, "applied "+name, will), nil
}

// named names an object in a difference.
func named(k client.Kind, namespace, name string) string {
	name = printing.Key(k, name)
	if namespace != "" {
		name += " (" + namespace + ")"
	}
	return terminal.Printable(name)
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
