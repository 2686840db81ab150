package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
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
