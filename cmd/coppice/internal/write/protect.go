package write

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/plan"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type protectFlags struct {
	cli.ModifyFlags
	reason string
}

// ProtectCommand returns the command `coppice protect`.
func ProtectCommand(a *cli.App) *cobra.Command {
	var f protectFlags
	c := &cobra.Command{
		Use:     "protect TYPE NAME... | TYPE/NAME... --reason REASON",
		GroupID: "objects",
		Short:   "Protect objects from deletion",
		Long: `Protect objects from deletion until they are unprotected. A DELETE of a protected
object is refused with the reason and with the user who protected it. The collector
leaves the object when its owners are gone; an owner that is deleted in the foreground,
or a namespace or kind that is deleted, waits for it. References to owners can still be
removed from it.

An object that is being deleted cannot be protected. The user needs permission for the
verb protect, which operators have.`,
		Example: `  coppice protect deploy/web -n shop --reason "production"
  coppice protect pvc -l tier=database -A --reason "customer data"`,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return protectObjects(ctx, s, args, f)
		}),
	}
	f.Flags(c)
	c.Flags().StringVar(&f.reason, "reason", "", "why (required)")
	a.ClientFlags(c)
	return c
}

// UnprotectCommand returns the command `coppice unprotect`.
func UnprotectCommand(a *cli.App) *cobra.Command {
	var f protectFlags
	c := &cobra.Command{
		Use:     "unprotect TYPE NAME... | TYPE/NAME... --reason REASON",
		GroupID: "objects",
		Short:   "Remove the protection of objects",
		Long: `Remove the protection of objects. The collector then deletes those that no owner
keeps, and with them their dependents; the command lists these objects.
--dry-run=server lists them and changes nothing.

The user needs permission for the verb unprotect, which operators have.`,
		Example:           `  coppice unprotect deploy/web -n shop --reason "moved to the new cluster" --dry-run=server`,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return unprotectObjects(ctx, s, args, f)
		}),
	}
	f.Flags(c)
	c.Flags().StringVar(&f.reason, "reason", "", "why (required)")
	a.ClientFlags(c)
	return c
}

func protectObjects(ctx context.Context, s *cli.Session, args []string, f protectFlags) error {
	if f.reason == "" {
		return cli.UsageErrorf("--reason is required: a refused deletion names it")
	}
	f.Unreadable = true
	return s.Modify(ctx, args, f.ModifyFlags, "protected", func(ctx context.Context, k client.Kind, o *coppicev1.Object, mode cli.DryMode) (cli.Modified, error) {
		if mode == cli.DryClient {
			return cli.Modified{Word: "protected"}, nil
		}
		m := o.GetMetadata()
		r, err := s.Objects(k, m.GetNamespace()).Protect(ctx, []string{m.GetName()}, f.reason, client.IfUID(m.GetUid()), client.DryRun(mode == cli.DryServer))
		if err != nil {
			return cli.Modified{}, err
		}
		if mode != cli.DryServer && r[0].Object.GetMetadata().GetResourceVersion() == m.GetResourceVersion() {
			return cli.Modified{Word: "protected already"}, nil
		}
		return cli.Modified{Word: "protected"}, nil
	})
}

// listedCollected is how many of the objects that are collected now are named.
const listedCollected = 10

func unprotectObjects(ctx context.Context, s *cli.Session, args []string, f protectFlags) error {
	if f.reason == "" {
		return cli.UsageErrorf("--reason is required: the log records why a protection was removed")
	}
	f.Unreadable = true
	return s.Modify(ctx, args, f.ModifyFlags, "unprotected", func(ctx context.Context, k client.Kind, o *coppicev1.Object, mode cli.DryMode) (cli.Modified, error) {
		m := o.GetMetadata()
		switch {
		case m.GetProtection() == nil && o.GetKind() != "": // an object that is unreadable may be
			return cli.Modified{Word: "is not protected"}, nil
		case mode == cli.DryClient:
			return cli.Modified{Word: "unprotected"}, nil
		}
		objects := s.Objects(k, m.GetNamespace())
		said, err := collectedNow(ctx, objects, m)
		if err != nil {
			return cli.Modified{}, err
		}
		r, err := objects.Unprotect(ctx, []string{m.GetName()}, f.reason, client.IfUID(m.GetUid()), client.DryRun(mode == cli.DryServer))
		if err != nil {
			return cli.Modified{}, err
		}
		if said == "" { // the plan says more than the warnings
			s.Warn(cli.ObjectName{Kind: k, Name: m.GetName()}, r[0].Warnings)
		}
		return cli.Modified{Word: "unprotected" + said}, nil
	})
}

// collectedNow says what is deleted when the protection of an object is removed; "" if nothing is,
// or if the user has no permission to plan.
func collectedNow(ctx context.Context, objects client.ResourceClient, m *coppicev1.ObjectMeta) (string, error) {
	p, err := objects.Plan(ctx, []string{m.GetName()}, client.PlanUnprotect(true), client.IfUID(m.GetUid()), client.MinRevision(m.GetResourceVersion()))
	if errors.Is(err, client.ErrForbidden) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	goes := plan.Removed(p)
	var list []string
	for _, o := range p.GetObjects() {
		if key := o.GetResource() + "/" + o.GetName(); goes[o.GetUid()] {
			list = append(list, terminal.WithNamespace(key, otherNamespace(o.GetNamespace(), m.GetNamespace())))
		}
	}
	return terminal.Prefixed("; deleted now: ", terminal.Printable(terminal.Short(list, listedCollected))), nil
}

// otherNamespace returns a namespace, "" if it is the one that the reader expects.
func otherNamespace(namespace, expected string) string {
	if namespace == expected {
		return ""
	}
	return namespace
}
