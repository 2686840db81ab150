package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// modifyFlags are those of label, annotate and patch: which objects, and how.
type modifyFlags struct {
	where
	fileFlags
	selector string
	every    bool
	dryRun   string
	output   string // formatText, or empty, if the command has no -o
}

func (f *modifyFlags) flags(c *cobra.Command) {
	f.where.flags(c, true)
	f.fileFlags.flags(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	c.Flags().BoolVar(&f.every, "all", false, "all objects of the type")
	dryRunFlag(c, &f.dryRun)
}

// checkSelection refuses --all together with -l or --field-selector, of which one would be ignored.
func checkSelection(every bool, selector, fields string) error {
	switch {
	case every && selector != "":
		return wrong("--all selects all objects of the type, and -l %s some of them: choose one", selector)
	case every && fields != "":
		return wrong("--all selects all objects of the type, and --field-selector %s some of them: choose one", fields)
	}
	return nil
}

// chosen returns the objects that arguments and flags name.
func (s *session) chosen(ctx context.Context, args []string, f modifyFlags) ([]target, error) {
	if err := checkSelection(f.every, f.selector, f.fields); err != nil {
		return nil, err
	}
	targets, err := s.targetsOrFiles(ctx, args, f.fileFlags, f.where)
	if err == nil {
		err = s.checkSelected(targets, f.where, f.every || f.selector != "" || f.fields != "")
	}
	return targets, err
}

// checkSelected refuses targets of which too many or no objects are selected. selects is whether
// --all, -l or --field-selector was given.
func (s *session) checkSelected(targets []target, w where, selects bool) error {
	for _, t := range targets {
		switch {
		case len(t.names) > 0 && selects:
			return wrong("--all, -l and --field-selector select objects; they do not go with names")
		case len(t.names) == 0 && !selects:
			return wrong("no %s are named: write their names, -l SELECTOR or --all", client.ResourceOf(t.kind))
		case selects && !t.kind.Namespaced() && s.givenNamespace != "" && !w.all:
			return wrong("%s are not in namespaces: --all and -l select in the whole realm, and -n %s does not restrict them; leave -n out, or write their names", client.ResourceOf(t.kind), s.givenNamespace)
		}
	}
	return w.checkNamed(targets)
}

// modified is what has become of an object.
type modified struct {
	word   string
	object *coppicev1.Object // nil if the command has no -o
}

// modify calls change for each chosen object, and prints what change returns. If change is refused for
// an object, modify reports that and continues with the others; any other error ends it.
func (s *session) modify(ctx context.Context, args []string, f modifyFlags, done string,
	change func(ctx context.Context, k client.Kind, o *coppicev1.Object, mode dryMode) (modified, error)) error {
	mode, err := dryRun(f.dryRun)
	if err != nil {
		return err
	}
	results, err := s.results(ctx, f.output, false)
	if err != nil {
		return err
	}
	if mode == dryClient && results != nil && f.output != formatName {
		return wrong("-o %s does not go with --dry-run=client: the server makes the object; use --dry-run=server", f.output)
	}
	targets, err := s.chosen(ctx, args, f)
	if err != nil {
		return err
	}
	failed, n := failures{app: s.app}, 0
	f.uninitialized = true
	for _, t := range targets {
		err := s.each(ctx, t, f.where, f.selector, func(o *coppicev1.Object) error {
			n++
			is, err := change(ctx, t.kind, o, mode)
			var refused *client.Error
			if errors.As(err, &refused) {
				failed.add(err)
				return nil
			}
			if err != nil {
				return err
			}
			if results != nil {
				return printResult(results, t.kind, is.object)
			}
			_, err = fmt.Fprintf(s.stdout, "%s %s%s\n", console.Printable(printing.Key(t.kind, o.GetMetadata().GetName())), is.word, mode.suffix())
			return err
		})
		if err == nil {
			continue
		}
		for _, e := range joined(err) {
			if !errors.Is(e, client.ErrNotFound) {
				return err
			}
			n++
			failed.add(e)
		}
	}
	if n == 0 {
		_, _ = fmt.Fprintln(s.stderr, "no objects match")
	}
	if results != nil {
		if err := results.End(); err != nil {
			return err
		}
	}
	return failed.err(done, n)
}

// objectName prints as the key of an object.
type objectName struct {
	kind client.Kind
	name string
}

func (n objectName) String() string { return console.Printable(printing.Key(n.kind, n.name)) }
