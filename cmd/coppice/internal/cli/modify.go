package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ModifyFlags are those of the commands that change objects one by one: which objects, and how.
type ModifyFlags struct {
	Where
	FileFlags
	Selector string
	Every    bool
	dryRun   string
	Output   string // FormatText, or empty, if the command has no -o
}

// Flags adds the flags, without --output and --field-selector.
func (f *ModifyFlags) Flags(c *cobra.Command) {
	f.Where.Flags(c, true)
	f.FileFlags.Flags(c)
	c.Flags().StringVarP(&f.Selector, "selector", "l", "", "label selector")
	c.Flags().BoolVar(&f.Every, "all", false, "all objects of the type")
	DryRunFlag(c, &f.dryRun)
}

// CheckSelectors refuses --all together with -l or --field-selector, of which one would be ignored.
func CheckSelectors(every bool, selector, fields string) error {
	switch {
	case every && selector != "":
		return UsageErrorf("--all selects all objects of the type, and -l %s some of them: choose one", selector)
	case every && fields != "":
		return UsageErrorf("--all selects all objects of the type, and --field-selector %s some of them: choose one", fields)
	}
	return nil
}

// Chosen returns the objects that arguments and flags name.
func (s *Session) Chosen(ctx context.Context, args []string, f ModifyFlags) ([]Target, error) {
	if err := CheckSelectors(f.Every, f.Selector, f.Fields); err != nil {
		return nil, err
	}
	targets, err := s.TargetsOrFiles(ctx, args, f.FileFlags, f.Where)
	if err == nil {
		err = s.CheckTargets(targets, f.Where, f.Every || f.Selector != "" || f.Fields != "")
	}
	return targets, err
}

// CheckTargets refuses targets of which too many or no objects are selected. selects is whether
// --all, -l or --field-selector was given.
func (s *Session) CheckTargets(targets []Target, w Where, selects bool) error {
	for _, t := range targets {
		switch {
		case len(t.Names) > 0 && selects:
			return UsageErrorf("--all, -l and --field-selector select objects; they do not go with names")
		case len(t.Names) == 0 && !selects:
			return UsageErrorf("no %s are named: write their names, -l SELECTOR or --all", client.ResourceOf(t.Kind))
		case selects && !t.Kind.Namespaced() && s.GivenNamespace != "" && !w.AllNamespaces:
			return UsageErrorf("%s are not in namespaces: --all and -l select in the whole realm, and -n %s does not restrict them; leave -n out, or write their names", client.ResourceOf(t.Kind), s.GivenNamespace)
		}
	}
	return w.CheckNamed(targets)
}

// Modified is what has become of an object.
type Modified struct {
	Word   string
	Object *coppicev1.Object // nil if the command has no -o
}

// Modify calls change for each chosen object, and prints what change returns. If change is refused for
// an object, or the object does not exist, Modify reports that and continues with the others; any other error ends it.
func (s *Session) Modify(ctx context.Context, args []string, f ModifyFlags, done string,
	change func(ctx context.Context, k client.Kind, o *coppicev1.Object, mode DryMode) (Modified, error)) error {
	mode, err := ParseDryRun(f.dryRun)
	if err != nil {
		return err
	}
	results, err := s.ResultPrinter(ctx, f.Output, false)
	if err != nil {
		return err
	}
	if mode == DryClient && results != nil && f.Output != FormatName {
		return UsageErrorf("-o %s does not go with --dry-run=client: the server makes the object; use --dry-run=server", f.Output)
	}
	targets, err := s.Chosen(ctx, args, f)
	if err != nil {
		return err
	}
	failed, n := Failures{App: s.App}, 0
	f.Uninitialized = true
	for _, t := range targets {
		err := s.Each(ctx, t, f.Where, f.Selector, func(o *coppicev1.Object) error {
			n++
			is, err := change(ctx, t.Kind, o, mode)
			var refused *client.Error
			if errors.As(err, &refused) {
				failed.Add(err)
				return nil
			}
			if err != nil {
				return err
			}
			if results != nil {
				return PrintResult(results, t.Kind, is.Object)
			}
			_, err = fmt.Fprintf(s.Stdout, "%s %s%s\n", terminal.Printable(printing.Key(t.Kind, o.GetMetadata().GetName())), is.Word, mode.Suffix())
			return err
		})
		if err == nil {
			continue
		}
		for _, e := range Joined(err) {
			if !errors.Is(e, client.ErrNotFound) {
				return err
			}
			n++
			failed.Add(e)
		}
	}
	if n == 0 {
		_, _ = fmt.Fprintln(s.Stderr, "no objects match")
	}
	if results != nil {
		if err := results.End(); err != nil {
			return err
		}
	}
	return failed.Err(done, n)
}

// ObjectName prints as the key of an object.
type ObjectName struct {
	Kind client.Kind
	Name string
}

// String implements fmt.Stringer.
func (n ObjectName) String() string { return terminal.Printable(printing.Key(n.Kind, n.Name)) }
