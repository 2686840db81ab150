package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// pairKind is what label and annotate change: labels or annotations.
type pairKind struct {
	verb, noun    string // "label", "label"
	done, removed string // "labeled", "unlabeled"
	member        string // of metadata
	of            func(*coppicev1.ObjectMeta) map[string]string
}

var (
	labelPairs = pairKind{
		verb: "label", noun: "label", done: "labeled", removed: "unlabeled", member: "labels", of: (*coppicev1.ObjectMeta).GetLabels,
	}
	annotationPairs = pairKind{
		verb: "annotate", noun: "annotation", done: "annotated", removed: "annotated", member: "annotations", of: (*coppicev1.ObjectMeta).GetAnnotations,
	}
)

type labelFlags struct {
	cli.ModifyFlags
	overwrite bool
	list      bool
	version   uint64
}

// LabelCommand returns the command `coppice label`.
func LabelCommand(a *cli.App) *cobra.Command {
	return pairsCommand(a, labelPairs, "  coppice label pods web-1 -n shop tier=front\n  coppice label pods -l app=web -n shop tier- --dry-run=server")
}

// AnnotateCommand returns the command `coppice annotate`.
func AnnotateCommand(a *cli.App) *cobra.Command {
	return pairsCommand(a, annotationPairs, "  coppice annotate deploy/web -n shop example.com/owner=ana")
}

func pairsCommand(a *cli.App, p pairKind, example string) *cobra.Command {
	var f labelFlags
	c := &cobra.Command{
		Use:     p.verb + " TYPE NAME... | TYPE/NAME... | -f FILE KEY=VALUE... KEY-...",
		GroupID: "objects",
		Short:   "Set or remove " + p.noun + "s of objects",
		Long: fmt.Sprintf(`Set or remove %[1]ss of objects: KEY=VALUE sets the %[1]s KEY, KEY- removes it.
Without --overwrite a change of an existing value is refused. If an object is
refused, the others are changed nevertheless; the exit code is 1 then.`, p.noun),
		Example:           example,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return setPairs(ctx, s, args, f, p)
		}),
	}
	f.Flags(c)
	c.Flags().BoolVar(&f.overwrite, "overwrite", false, "replace existing values")
	c.Flags().BoolVar(&f.list, "list", false, "print the "+p.noun+"s of the objects and change nothing")
	c.Flags().Uint64Var(&f.version, "resource-version", 0, "change the object only if it has this resourceVersion")
	f.FieldFlag(c)
	cli.ResultFlag(c, &f.Output)
	a.ClientFlags(c)
	return c
}

// splitPairs separates the objects from KEY=VALUE and KEY- behind them. nil means
// that a key is removed.
func splitPairs(args []string) (objects []string, set map[string]*string, err error) {
	set = map[string]*string{}
	for _, a := range args {
		name, value, has := strings.Cut(a, "=")
		if !has {
			name, has = strings.CutSuffix(a, "-")
			if !has && len(set) > 0 {
				return nil, nil, cli.UsageErrorf("%q is not KEY=VALUE or KEY-: objects are named before them", a)
			}
			if !has {
				objects = append(objects, a)
				continue
			}
		}
		if name == "" {
			return nil, nil, cli.UsageErrorf("%q has no key: write KEY=VALUE or KEY-", a)
		}
		if _, twice := set[name]; twice {
			return nil, nil, cli.UsageErrorf("the key %s is given twice", name)
		}
		set[name] = nil
		if strings.Contains(a, "=") {
			set[name] = &value
		}
	}
	return objects, set, nil
}

func setPairs(ctx context.Context, s *cli.Session, args []string, f labelFlags, p pairKind) error {
	objects, set, err := splitPairs(args)
	switch {
	case err != nil:
		return err
	case f.list && len(set) > 0, !f.list && len(set) == 0:
		return cli.UsageErrorf("write KEY=VALUE or KEY- to change %ss, or --list to print them", p.noun)
	}
	if f.list {
		return s.Modify(ctx, objects, f.ModifyFlags, "listed", func(_ context.Context, _ client.Kind, o *coppicev1.Object, _ cli.DryMode) (cli.Modified, error) {
			return cli.Modified{Word: printing.PairsText(p.of(o.GetMetadata())), Object: o}, nil
		})
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{p.member: set}})
	if err != nil {
		return err
	}
	return s.Modify(ctx, objects, f.ModifyFlags, p.done, func(ctx context.Context, k client.Kind, o *coppicev1.Object, mode cli.DryMode) (cli.Modified, error) {
		for attempt := 1; ; attempt++ {
			if err := p.check(k, o, set, f.overwrite); err != nil {
				return cli.Modified{}, err
			}
			if f.version != 0 {
				o.Metadata.ResourceVersion = f.version
			}
			did, is, err := patchObject(ctx, s, k, o, patch, !f.overwrite || f.version != 0, mode)
			if err == nil {
				return cli.Modified{Word: p.outcome(p.of(o.GetMetadata()), set, did == hasChanged), Object: is}, nil
			}
			if !errors.Is(err, client.ErrConflict) || attempt == patchAttempts || f.version != 0 {
				return cli.Modified{}, err
			}
			m := o.GetMetadata()
			if o, err = s.Objects(k, m.GetNamespace()).Get(ctx, m.GetName(), client.IncludeUninitialized(true)); err != nil {
				return cli.Modified{}, err
			}
		}
	})
}

// check refuses to replace values without --overwrite.
func (p pairKind) check(k client.Kind, o *coppicev1.Object, set map[string]*string, overwrite bool) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value, was := set[name], p.of(o.GetMetadata())
		if have, ok := was[name]; ok && value != nil && have != *value && !overwrite {
			return &client.Error{Reason: client.ErrConflict, Message: fmt.Sprintf("%s %s: the %s %s has the value %q; --overwrite replaces it",
				p.verb, printing.Key(k, o.GetMetadata().GetName()), p.noun, name, have)}
		}
	}
	return nil
}

// outcome is the word for what happened to an object that had these pairs.
func (p pairKind) outcome(was map[string]string, set map[string]*string, changed bool) string {
	removes := false
	for name, value := range set {
		have, ok := was[name]
		if value != nil && (!ok || have != *value) {
			return p.done
		}
		removes = removes || value == nil && ok
	}
	if removes && changed {
		return p.removed
	}
	return "not " + p.done
}
