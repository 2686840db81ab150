package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/internal/manifestfile"
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

// deleted is the word for an object that a request has removed.
const deleted = "deleted"

// patchAttempts is the maximum number of attempts of a patch that depends on the state of the
// object, if other clients change the object meanwhile.
const patchAttempts = 5

// effect is what a request did to an object.
type effect int

const (
	noEffect effect = iota
	hasChanged
	hasRemoved // it was terminating, and has lost its last finalizer
)

// patchObject sends a merge patch, and returns the object after it. With checked it fails if the
// object has changed since it was read.
func (s *session) patchObject(ctx context.Context, k client.Kind, o *coppicev1.Object, patch []byte, checked bool, mode dryMode) (effect, *coppicev1.Object, error) {
	if mode == dryClient {
		return hasChanged, o, nil
	}
	m := o.GetMetadata()
	var reply client.Reply
	options := client.PatchOptions{DryRun: mode == dryServer, UID: m.GetUid(), Reply: &reply}
	if checked {
		options.ResourceVersion = m.GetResourceVersion()
	}
	r, err := s.objects(k, m.GetNamespace()).Patch(ctx, m.GetName(), patch, options)
	switch {
	case err != nil:
		return noEffect, nil, err
	case s.accepted(objectName{k, m.GetName()}, r, reply.Warnings):
		return hasRemoved, r, nil
	case r.GetMetadata().GetResourceVersion() != m.GetResourceVersion() || mode == dryServer:
		return hasChanged, r, nil
	}
	return noEffect, r, nil
}

// accepted prints the warnings of a reply, and one if the object is terminating. It reports
// whether the request has removed the object: a terminating object is removed with its last
// finalizer.
func (a *app) accepted(where fmt.Stringer, o *coppicev1.Object, warnings []string) (removed bool) {
	m := o.GetMetadata()
	switch {
	case m.GetDeletionTimestamp() == nil:
	case len(m.GetFinalizers()) == 0 && m.GetDeletionGracePeriodSeconds() == 0:
		removed = true
	default:
		warnings = append(warnings, "the object is being deleted, which the request does not stop")
	}
	a.warn(where, warnings)
	return removed
}

// objectName prints as the key of an object.
type objectName struct {
	kind client.Kind
	name string
}

func (n objectName) String() string { return console.Printable(printing.Key(n.kind, n.name)) }

type patchFlags struct {
	modifyFlags
	patch, file, typ string
}

func (a *app) patchCommand() *cobra.Command {
	var f patchFlags
	c := &cobra.Command{
		Use:     "patch TYPE NAME... | TYPE/NAME... | -f FILE -p PATCH",
		GroupID: "objects",
		Short:   "Change fields of objects by a merge patch",
		Long: `Merge a JSON merge patch (RFC 7386), in JSON or YAML, into objects: members of the
patch replace those of the object, and null removes a member. Lists are replaced, not
merged. Strategic merge patches and JSON patches (RFC 6902) are not supported.`,
		Example: `  coppice patch deploy/web -n shop -p '{"spec":{"replicas":3}}'
  coppice patch cm/web -n shop --patch-file=change.yaml --dry-run=server`,
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.patch(ctx, args, f)
		}),
	}
	f.flags(c)
	c.Flags().StringVarP(&f.patch, "patch", "p", "", "the patch, in JSON or YAML")
	c.Flags().StringVar(&f.file, "patch-file", "", "a file with the patch")
	resultFlag(c, &f.output)
	c.Flags().StringVar(&f.typ, "type", "merge", "the type of the patch: merge")
	completeFlag(c, "type", "merge")
	a.clientFlags(c)
	return c
}

func (s *session) patch(ctx context.Context, args []string, f patchFlags) error {
	if f.typ != "merge" {
		return wrong("--type=%s is not offered; there is merge: a JSON merge patch (RFC 7386)", f.typ)
	}
	file, text := "-p", []byte(f.patch)
	switch {
	case (f.patch == "") == (f.file == ""):
		return wrong("no patch, or two: write -p PATCH or --patch-file FILE")
	case f.file != "":
		data, err := within(ctx, func() ([]byte, error) { return os.ReadFile(f.file) })
		if err != nil {
			return err
		}
		file, text = f.file, data
	}
	patch, err := manifestfile.ReadPatch(file, text)
	if err != nil {
		return wrong("the patch cannot be read: %w", err)
	}
	return s.modify(ctx, args, f.modifyFlags, "patched", func(ctx context.Context, k client.Kind, o *coppicev1.Object, mode dryMode) (modified, error) {
		did, is, err := s.patchObject(ctx, k, o, patch, false, mode)
		return modified{map[effect]string{noEffect: "patched (no change)", hasChanged: "patched", hasRemoved: deleted}[did], is}, err
	})
}
