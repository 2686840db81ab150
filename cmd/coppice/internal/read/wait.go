package read

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/deletion"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type waitFlags struct {
	cli.ModifyFlags
	idle    bool
	until   []string
	timeout time.Duration
}

// WaitCommand returns the command `coppice wait`.
func WaitCommand(a *cli.App) *cobra.Command {
	var f waitFlags
	c := &cobra.Command{
		Use:     "wait --idle | wait --for=CONDITION TYPE NAME... | TYPE/NAME...",
		GroupID: "operate",
		Short:   "Wait for conditions of objects, or until a realm has no pending work",
		Long: `With --for=delete, wait until the named objects do not exist any more. The command
does not delete them, and ignores new objects with the same names. With --for=create,
wait until the objects exist. With --for=condition=NAME, wait until the status of
each object has the condition NAME with the status True, or VALUE with
--for=condition=NAME=VALUE; case does not matter. With --for=jsonpath='{PATH}', wait
until the path selects a value, or VALUE with --for=jsonpath='{PATH}'=VALUE. Several
--for are waited for one after the other, create first.

With --idle, wait until the collector, the finalizers and the agents have no pending
work: all deletions are complete. Dependents of unknown owners do not count: they
are kept while the owners are unknown. Neither do objects that wait until their
controller reports status.observedGeneration.`,
		Example: `  coppice wait --for=delete deploy/web -n shop --timeout=60s
  coppice wait --for=condition=Available deploy/web -n shop
  coppice wait --for=jsonpath='{.status.phase}'=Running pod/web-1 -n shop
  coppice wait --idle`,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
	}
	c.RunE = a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
		switch {
		case f.idle == (len(f.until) > 0):
			return cli.UsageErrorf("name one thing to wait for: --idle, or --for=delete, create, condition=NAME or jsonpath={PATH}")
		case f.idle && (len(args) > 0 || len(f.Files) > 0 || f.Every || f.Selector != "" || f.Fields != ""):
			return cli.UsageErrorf("--idle waits for the realm; it does not go with objects")
		case f.idle && !c.Flags().Changed("timeout"):
			return waitIdle(ctx, s, noLimit)
		case f.idle:
			return waitIdle(ctx, s, f.timeout)
		}
		what, err := parseAwaited(f.until)
		switch {
		case err != nil:
			return err
		case what.deleted:
			return waitDeleted(ctx, s, args, f)
		}
		return waitFor(ctx, s, args, f, what)
	})
	f.Where.Flags(c, true)
	f.FileFlags.Flags(c)
	c.Flags().StringVarP(&f.Selector, "selector", "l", "", "label selector")
	f.FieldFlag(c)
	c.Flags().BoolVar(&f.Every, "all", false, "all objects of the type")
	c.Flags().BoolVar(&f.idle, "idle", false, "wait until the realm has no pending work")
	c.Flags().StringArrayVar(&f.until, "for", nil, "what to wait for: delete, create, condition=NAME[=VALUE] or jsonpath={PATH}[=VALUE]")
	c.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait; 0: look once. --idle waits without a limit by default")
	cli.CompleteFlag(c, "for", "delete", "create", "condition=", "jsonpath=")
	a.ClientFlags(c)
	return c
}

// waitDeleted waits until the objects that exist now are gone. An object that does not exist
// counts as gone.
func waitDeleted(ctx context.Context, s *cli.Session, args []string, f waitFlags) error {
	targets, err := s.Chosen(ctx, args, f.ModifyFlags)
	if err != nil {
		return err
	}
	f.Uninitialized = true
	var uids []string
	var remaining []error
	for _, t := range targets {
		err := s.Each(ctx, t, f.Where, f.Selector, func(o *coppicev1.Object) error {
			uids = append(uids, o.GetMetadata().GetUid())
			remaining = append(remaining, fmt.Errorf("%s is still there", cli.ObjectName{Kind: t.Kind, Name: o.GetMetadata().GetName()}))
			return nil
		})
		if err := errors.Join(cli.IgnoreNotFound(err, true)...); err != nil {
			return err
		}
	}
	if len(uids) == 0 {
		_, err := fmt.Fprintln(s.Stdout, "no such objects exist")
		return err
	}
	if f.timeout == 0 {
		return errors.Join(remaining...)
	}
	return deletion.Await(ctx, s, uids, f.timeout)
}

// noLimit is a timeout that does not pass.
const noLimit = time.Duration(math.MaxInt64)

// waitIdle asks for the status until it is idle, or once if the timeout is 0, and prints
// what it waits for whenever that changes.
func waitIdle(ctx context.Context, s *cli.Session, timeout time.Duration) error {
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	printed, waiting := "", ""
	for {
		start := s.Clock()
		status, err := s.Client.Status(limited)
		switch {
		case err == nil && status.GetIdle():
			_, err := fmt.Fprintf(s.Stdout, "idle at revision %d\n", status.GetRevision())
			return err
		case err == nil:
			waiting = cli.PendingText(status)
		case limited.Err() != nil:
		case rpc.Retryable(err):
			waiting = "no answer: " + err.Error()
		default:
			return err
		}
		if waiting != printed && limited.Err() == nil {
			printed = waiting
			if _, err := fmt.Fprintln(s.Stderr, "waiting: "+terminal.Printable(waiting)); err != nil {
				return err
			}
		}
		if timeout == 0 {
			return fmt.Errorf("not idle: %s", waiting)
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("not idle after %s: %s", timeout, waiting)
		case <-s.NextLook(start):
		}
	}
}
