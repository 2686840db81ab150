package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
)

type applyFlags struct {
	fileFlags
	namespace string
	dryRun    string
}

func (a *app) applyCommand() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:     "apply -f FILE",
		GroupID: "objects",
		Short:   "Create objects from manifests, or bring them up to date",
		Long: `Apply creates the objects of manifests, or merges the manifests into the objects
that are there: what a manifest does not mention stays as it is. Fields that the
server sets (uid, resourceVersion, timestamps) and status are ignored; 'coppice
import' keeps them.

A file that is neither YAML nor JSON is refused before anything is done. An
object that is refused keeps no other from being applied; the exit code is 1
then.`,
		Example: `  coppice apply -f web.yaml -n shop
  coppice apply -R -f manifests/ --dry-run=server
  kubectl get deploy web -o yaml | coppice apply -f -`,
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.apply(ctx, args, f)
		}),
	}
	f.flags(c)
	c.Flags().StringVarP(&f.namespace, "namespace", "n", defaultNamespace, "namespace of objects that name none")
	dryRunFlag(c, &f.dryRun)
	a.clientFlags(c)
	return c
}

func dryRunFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "dry-run", "none", "server: answer as if, and change nothing; or none")
	c.Flags().Lookup("dry-run").NoOptDefVal = "server"
}

// dryRun reads the flag.
func dryRun(value string) (bool, error) {
	switch value {
	case "server":
		return true, nil
	case "none", "":
		return false, nil
	}
	return false, wrong("--dry-run=%s is not known; there are server and none", value)
}

// suffix marks what was done in a dry run.
func suffix(dry bool) string {
	if dry {
		return " (server dry run)"
	}
	return ""
}

func (s *session) apply(ctx context.Context, args []string, f applyFlags) error {
	dry, err := dryRun(f.dryRun)
	if err != nil {
		return err
	}
	entries, err := s.entries(f.fileFlags, args)
	if err != nil {
		return err
	}
	failed := failures{app: s.app}
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		i, err := s.place(e, f.namespace)
		if err != nil {
			failed.add(err)
			continue
		}
		done, err := s.applyOne(ctx, i, dry)
		if err != nil {
			failed.add(i.failed(err))
			continue
		}
		if _, err := fmt.Fprintf(s.stdout, "%s %s%s\n", printable(i.key()), done, suffix(dry)); err != nil {
			return err
		}
		if registers(e) && !dry {
			if err := s.relearn(ctx); err != nil {
				return err
			}
		}
	}
	return failed.err("applied", len(entries))
}

// applyOne applies an object, and says what became of it.
func (s *session) applyOne(ctx context.Context, i item, dry bool) (string, error) {
	objects := s.objects(i.kind, i.namespace)
	before, err := objects.Get(ctx, i.Object.GetMetadata().GetName(), client.IncludeUninitialized(true))
	if err != nil && !errors.Is(err, client.ErrNotFound) && !errors.Is(err, client.ErrBadRequest) {
		return "", err
	}
	var reply client.Reply
	r, err := objects.Apply(ctx, i.Object, client.DryRun(dry), client.ReplyInto(&reply))
	if err != nil {
		return "", err
	}
	s.warn(i.At, reply.Warnings)
	if i.Object.GetMetadata().GetName() == "" {
		i.Object.Metadata.Name = r.GetMetadata().GetName()
	}
	switch {
	case reply.Created:
		return "created", nil
	case proto.Equal(before, r):
		return "unchanged", nil
	}
	return "configured", nil
}
