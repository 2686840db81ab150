package write

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

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
func patchObject(ctx context.Context, s *cli.Session, k client.Kind, o *coppicev1.Object, patch []byte, checked bool, mode cli.DryMode) (effect, *coppicev1.Object, error) {
	if mode == cli.DryClient {
		return hasChanged, o, nil
	}
	m := o.GetMetadata()
	var reply client.Reply
	options := client.PatchOptions{DryRun: mode == cli.DryServer, UID: m.GetUid(), Reply: &reply}
	if checked {
		options.ResourceVersion = m.GetResourceVersion()
	}
	r, err := s.Objects(k, m.GetNamespace()).Patch(ctx, m.GetName(), patch, options)
	switch {
	case err != nil:
		return noEffect, nil, err
	case accepted(s.App, cli.ObjectName{Kind: k, Name: m.GetName()}, r, reply.Warnings):
		return hasRemoved, r, nil
	case r.GetMetadata().GetResourceVersion() != m.GetResourceVersion() || mode == cli.DryServer:
		return hasChanged, r, nil
	}
	return noEffect, r, nil
}

// accepted prints the warnings of a reply, and one if the object is terminating. It reports
// whether the request has removed the object: a terminating object is removed with its last
// finalizer.
func accepted(a *cli.App, where fmt.Stringer, o *coppicev1.Object, warnings []string) (removed bool) {
	m := o.GetMetadata()
	switch {
	case m.GetDeletionTimestamp() == nil:
	case len(m.GetFinalizers()) == 0 && m.GetDeletionGracePeriodSeconds() == 0:
		removed = true
	default:
		warnings = append(warnings, "the object is being deleted, which the request does not stop")
	}
	a.Warn(where, warnings)
	return removed
}

type patchFlags struct {
	cli.ModifyFlags
	patch, file, typ string
}

// PatchCommand returns the command `coppice patch`.
func PatchCommand(a *cli.App) *cobra.Command {
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
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return patchObjects(ctx, s, args, f)
		}),
	}
	f.Flags(c)
	c.Flags().StringVarP(&f.patch, "patch", "p", "", "the patch, in JSON or YAML")
	c.Flags().StringVar(&f.file, "patch-file", "", "a file with the patch")
	cli.ResultFlag(c, &f.Output)
	c.Flags().StringVar(&f.typ, "type", "merge", "the type of the patch: merge")
	cli.CompleteFlag(c, "type", "merge")
	a.ClientFlags(c)
	return c
}

func patchObjects(ctx context.Context, s *cli.Session, args []string, f patchFlags) error {
	if f.typ != "merge" {
		return cli.UsageErrorf("--type=%s is not offered; there is merge: a JSON merge patch (RFC 7386)", f.typ)
	}
	file, text := "-p", []byte(f.patch)
	switch {
	case (f.patch == "") == (f.file == ""):
		return cli.UsageErrorf("no patch, or two: write -p PATCH or --patch-file FILE")
	case f.file != "":
		data, err := cli.Within(ctx, func() ([]byte, error) { return os.ReadFile(f.file) })
		if err != nil {
			return err
		}
		file, text = f.file, data
	}
	patch, err := manifestfile.ReadPatch(file, text)
	if err != nil {
		return cli.UsageErrorf("the patch cannot be read: %w", err)
	}
	return s.Modify(ctx, args, f.ModifyFlags, "patched", func(ctx context.Context, k client.Kind, o *coppicev1.Object, mode cli.DryMode) (cli.Modified, error) {
		did, is, err := patchObject(ctx, s, k, o, patch, false, mode)
		return cli.Modified{Word: map[effect]string{noEffect: "patched (no change)", hasChanged: "patched", hasRemoved: deleted}[did], Object: is}, err
	})
}
