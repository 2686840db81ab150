package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// FinalizerCommand returns the command `coppice finalizer`.
func FinalizerCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "finalizer",
		GroupID: "operate",
		Short:   "List external finalizers, or remove one by hand",
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var w cli.Where
	var reason, uid string
	var force bool
	var call uint64
	remove := &cobra.Command{
		Use:   "remove TYPE/NAME FINALIZER --reason REASON",
		Short: "Remove a finalizer whose controller does not answer",
		Long: `Remove a finalizer from an object in place of its controller. What the controller
would have cleaned up stays behind. The log records the reason and the user.

With --force the log records the removal as one by force. It is refused while the
controller works on the call for this object, unless --call names that call, and warns
if the controller is running.

The user needs permission for the verb removefinalizer, or with --force for
forcefinalizer. Operators have both.`,
		Example: `  coppice finalizer remove pods/web-1 example.com/bucket -n shop --reason "the bucket is gone already"`,
		Args:    cobra.ExactArgs(2),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			if call != 0 && !force {
				return cli.UsageErrorf("--call goes with --force")
			}
			return removeFinalizer(ctx, s, args[0], args[1], w, reason, uid, force, call)
		}),
	}
	w.Flags(remove, false)
	remove.Flags().StringVar(&reason, "reason", "", "why, for the log (required)")
	remove.Flags().StringVar(&uid, "uid", "", "uid that the object must have")
	remove.Flags().BoolVar(&force, "force", false, "remove it even if its controller may be running")
	remove.Flags().Uint64Var(&call, "call", 0, "with --force: id of the call that the controller works on, which the refused command printed")
	a.ClientFlags(remove)
	var output string
	list := &cobra.Command{
		Use:   "list",
		Short: "List the external finalizers in use, and the programs that answer them",
		Long: `List every external finalizer that an object has: how many objects have it, how many
of them are being deleted, for how long the oldest of these is, and what is known of
the program that receives its calls. -o wide adds the program and its last error.

All objects are read; this takes about a second for a million of them.`,
		Example: `  coppice finalizer list
  coppice finalizer list -o wide`,
		Args: cobra.NoArgs,
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, _ []string) error { return listFinalizers(ctx, s, output) }),
	}
	list.Flags().StringVarP(&output, "output", "o", cli.FormatTable, "table, wide or json")
	cli.CompleteFlag(list, "output", cli.FormatTable, cli.FormatWide, cli.FormatJSON)
	a.ClientFlags(list)
	c.AddCommand(list, remove)
	return c
}

func removeFinalizer(ctx context.Context, s *cli.Session, object, finalizer string, w cli.Where, reason, uid string, force bool, call uint64) error {
	if reason == "" {
		return cli.UsageErrorf("--reason is required: the log records why a finalizer was removed by hand")
	}
	k, name, err := s.OneObject([]string{object})
	if err != nil {
		return err
	}
	objects := s.Objects(k, w.NamespaceOf(k))
	// The request succeeds for a finalizer that is not there, so that controllers can
	// repeat it. For a person this is a typing error.
	o, err := objects.Get(ctx, name, client.IncludeUninitialized(true))
	if err != nil {
		return err
	}
	has := o.GetMetadata().GetFinalizers()
	if !slices.Contains(has, finalizer) {
		return fmt.Errorf("%s has no finalizer %s; it has %s", printing.Key(k, name), finalizer, cmp.Or(strings.Join(has, ", "), "none"))
	}
	var reply client.Reply
	var r *client.Object
	if force {
		r, err = objects.ForceFinalizer(ctx, name, finalizer, reason, client.IfUID(uid), client.IfCall(call), client.ReplyInto(&reply))
	} else {
		r, err = objects.RemoveFinalizer(ctx, name, finalizer, client.Note(reason), client.IfUID(uid))
	}
	if err != nil {
		return err
	}
	s.Warn(cli.ObjectName{Kind: k, Name: name}, reply.Warnings)
	// The reply shows an object that is gone as it last was.
	m, end := r.GetMetadata(), ""
	left := slices.DeleteFunc(slices.Clone(m.GetFinalizers()), func(f string) bool { return f == finalizer })
	if m.GetDeletionTimestamp() != nil && m.GetDeletionGracePeriodSeconds() == 0 && len(left) == 0 {
		end = "; the object is gone"
	}
	_, err = fmt.Fprintf(s.Stdout, "%s removed from %s%s\n", terminal.Printable(finalizer), terminal.Printable(printing.Key(k, name)), end)
	return err
}
