package write

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/manifestfile"
)

// writeFlags are the flags that apply, create, replace and import have in common.
type writeFlags struct {
	cli.FileFlags
	namespace string
	dryRun    string
	output    string
}

func (f *writeFlags) flags(c *cobra.Command) {
	f.Flags(c)
	c.Flags().StringVarP(&f.namespace, "namespace", "n", cli.DefaultNamespace, "namespace of objects that name none; if an object names another, nothing is done")
	cli.DryRunFlag(c, &f.dryRun)
}

// ApplyCommand returns the command `coppice apply`.
func ApplyCommand(a *cli.App) *cobra.Command {
	var across bool
	c := writeCommand(a, &cobra.Command{
		Use:     "apply -f FILE",
		GroupID: "objects",
		Short:   "Create objects from manifests, or bring them up to date",
		Long: `Create the objects of manifests, or merge the manifests into existing objects. Apply
sets what a manifest has, and removes what the manifest that was applied before had and
this one has not: labels, annotations, finalizers, owner references, uses, and members of
spec and the like. What others have set stays. Lists in spec are replaced. The first
apply of an object that 'create' or 'import' has made removes nothing. 'coppice get
--show-managed-fields -o yaml' shows what the last apply has set.

Fields that the server sets (uid, resourceVersion, timestamps) and status are ignored;
'coppice import' keeps them.

If a file is neither YAML nor JSON, nothing is applied. If the server refuses an
object, the others are applied, and the exit code is 1. Objects are applied
in the order of the files, in groups of up to 1,000; in a group, objects of one kind
and namespace are sent together.

With --across the objects may use objects in other namespaces (metadata.uses) that
sharedNamespaces in the realm settings names. The user needs permission for the verb
applyacross, which operators have.`,
		Example: `  coppice apply -f web.yaml -n shop
  coppice apply -R -f manifests/ --dry-run=server
  kubectl get deploy web -o yaml | coppice apply -f -`,
	}, operation{
		done: "applied",
		send: func(r client.ResourceClient, ctx context.Context, objects []*client.Object, opts ...client.WriteOption) ([]client.Result, error) {
			if across {
				return r.ApplyAcrossBatch(ctx, objects, opts...)
			}
			return r.ApplyBatch(ctx, objects, opts...)
		},
		outcome: func(r client.Result, before uint64) string {
			switch {
			case r.Created:
				return "created"
			case r.Object.GetMetadata().GetResourceVersion() <= before:
				return "unchanged"
			}
			return "configured"
		},
		rehearse: rehearseApply,
		listed:   true,
		check:    checkName,
	})
	c.Flags().BoolVar(&across, "across", false, "the objects may use objects in other namespaces")
	return c
}

// CreateCommand returns the command `coppice create`.
func CreateCommand(a *cli.App) *cobra.Command {
	return writeCommand(a, &cobra.Command{
		Use:     "create -f FILE",
		GroupID: "objects",
		Short:   "Create objects from manifests",
		Long: `Create the objects of manifests. An object that exists already is reported as an
error; the others are created, and the exit code is 1 then. uid, resourceVersion,
timestamps and status of a manifest are ignored.`,
		Example: `  coppice create -f web.yaml -n shop
  coppice create -f job.yaml --dry-run=server`,
	}, operation{
		done:     "created",
		send:     client.ResourceClient.CreateBatch,
		outcome:  func(client.Result, uint64) string { return "created" },
		rehearse: rehearsed("created"),
	})
}

// ReplaceCommand returns the command `coppice replace`.
func ReplaceCommand(a *cli.App) *cobra.Command {
	return writeCommand(a, &cobra.Command{
		Use:     "replace -f FILE",
		GroupID: "objects",
		Short:   "Replace objects by manifests",
		Long: `Replace objects by manifests: fields that a manifest does not mention are removed
from the object, except its status. If the manifest has a resourceVersion, a change
of the object since then is an error. An object that does not exist is an error.`,
		Example: `  coppice get cm/web -o yaml > web.yaml; $EDITOR web.yaml; coppice replace -f web.yaml`,
	}, operation{
		done:     "replaced",
		send:     client.ResourceClient.UpdateBatch,
		outcome:  func(client.Result, uint64) string { return "replaced" },
		rehearse: rehearsed("replaced"),
		check: func(e manifestfile.Entry) error {
			if e.Foreign != nil {
				return e.Foreign
			}
			return checkName(e)
		},
	})
}

// checkName refuses an object whose name the server would generate.
func checkName(e manifestfile.Entry) error {
	if m := e.Object.GetMetadata(); m.GetName() == "" && m.GetGenerateName() != "" {
		return errors.New("generateName names another object each time, and none that exists: use create, or write a name")
	}
	return nil
}

// writeCommand completes a command that writes the objects of manifests.
func writeCommand(a *cli.App, c *cobra.Command, o operation) *cobra.Command {
	var f writeFlags
	var strict bool
	c.RunE = a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
		o.options = []client.WriteOption{client.StrictOwners(strict)}
		return writeFiles(ctx, s, args, f, o)
	})
	f.flags(c)
	f.MatchingFlag(c)
	cli.ResultFlag(c, &f.output)
	c.Flags().BoolVar(&strict, "strict-owners", false, "refuse objects that get owners which do not exist or do not keep them")
	a.ClientFlags(c)
	return c
}

// rehearsed is the outcome of a dry run of an operation that has only one.
func rehearsed(outcome string) func(context.Context, *cli.Session, cli.Item, cli.DryMode, operation) (string, *client.Object, error) {
	return func(ctx context.Context, s *cli.Session, i cli.Item, mode cli.DryMode, o operation) (string, *client.Object, error) {
		if mode == cli.DryClient || i.Unregistered {
			return outcome, i.Object, nil
		}
		r, err := sendAlone(ctx, i, o, client.DryRun(true))
		if accepted(s.App, i.At, r.Object, r.Warnings) {
			return deleted, r.Object, err
		}
		return outcome, r.Object, err
	}
}

// rehearseApply compares an object with what apply would make of it, and what apply would record.
func rehearseApply(ctx context.Context, s *cli.Session, i cli.Item, mode cli.DryMode, o operation) (string, *client.Object, error) {
	if i.Unregistered {
		return "created", i.Object, nil
	}
	before, err := i.Objects.Get(ctx, i.Object.GetMetadata().GetName(), client.IncludeUninitialized(true), client.IncludeApplied(true))
	if err != nil && !errors.Is(err, client.ErrNotFound) && !errors.Is(err, client.ErrBadRequest) {
		return "", nil, err
	}
	if mode == cli.DryClient {
		if before == nil {
			return "created", i.Object, nil
		}
		return "configured", i.Object, nil
	}
	r, err := sendAlone(ctx, i, o, client.DryRun(true))
	if err != nil {
		return "", nil, err
	}
	switch {
	case accepted(s.App, i.At, r.Object, r.Warnings):
		return deleted, r.Object, nil
	case r.Created:
		return "created", r.Object, nil
	case proto.Equal(before, r.Object):
		return "unchanged", r.Object, nil
	}
	return "configured", r.Object, nil
}
