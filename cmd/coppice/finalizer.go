package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
)

func (a *app) finalizerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "finalizer",
		GroupID: "operate",
		Short:   "Remove finalizers by hand",
		Args:    unknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var w where
	var reason, uid string
	remove := &cobra.Command{
		Use:   "remove TYPE/NAME FINALIZER --reason REASON",
		Short: "Remove a finalizer whose controller does not answer",
		Long: `Remove a finalizer from an object in place of its controller. What the controller
would have cleaned up stays behind. The log records the reason and the user.

The user needs permission for the verb removefinalizer, which operators have.`,
		Example: `  coppice finalizer remove pods/web-1 example.com/bucket -n shop --reason "the bucket is gone already"`,
		Args:    cobra.ExactArgs(2),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.removeFinalizer(ctx, args[0], args[1], w, reason, uid)
		}),
	}
	w.flags(remove, false)
	remove.Flags().StringVar(&reason, "reason", "", "why, for the log (required)")
	remove.Flags().StringVar(&uid, "uid", "", "uid that the object must have")
	a.clientFlags(remove)
	c.AddCommand(remove)
	return c
}

func (s *session) removeFinalizer(ctx context.Context, object, finalizer string, w where, reason, uid string) error {
	if reason == "" {
		return wrong("--reason is required: the log records why a finalizer was removed by hand")
	}
	k, name, err := s.one([]string{object})
	if err != nil {
		return err
	}
	objects := s.objects(k, w.of(k))
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
	r, err := objects.RemoveFinalizer(ctx, name, finalizer, client.Note(reason), client.IfUID(uid))
	if err != nil {
		return err
	}
	// The reply shows an object that is gone as it last was.
	m, end := r.GetMetadata(), ""
	left := slices.DeleteFunc(slices.Clone(m.GetFinalizers()), func(f string) bool { return f == finalizer })
	if m.GetDeletionTimestamp() != nil && m.GetDeletionGracePeriodSeconds() == 0 && len(left) == 0 {
		end = "; the object is gone"
	}
	_, err = fmt.Fprintf(s.stdout, "%s removed from %s%s\n", console.Printable(finalizer), console.Printable(printing.Key(k, name)), end)
	return err
}
