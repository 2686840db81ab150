package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
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
		Long: `Remove takes a finalizer off an object, as the controller does when it has cleaned
up. What the controller would have cleaned up stays behind. The log records the
reason, and who gave it.

It needs the verb removefinalizer, which operators have.`,
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
	var pre *coppicev1.Preconditions
	if uid != "" {
		pre = &coppicev1.Preconditions{Uid: uid}
	}
	r, err := s.objects(k, w.of(k)).RemoveFinalizer(ctx, name, finalizer, reason, pre)
	if err != nil {
		return err
	}
	m, end := r.Object.GetMetadata(), ""
	if m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0 {
		end = "; the object is gone"
	}
	_, err = fmt.Fprintf(s.stdout, "%s removed from %s%s\n", printable(finalizer), printable(key(k, name)), end)
	return err
}
