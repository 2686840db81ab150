package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/rpc"
)

func (a *app) waitCommand() *cobra.Command {
	var idle bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:     "wait --idle",
		GroupID: "operate",
		Short:   "Wait until nothing is left to do in a realm",
		Long: `Wait --idle returns when the collector, the finalizers and the agents have
nothing left to do: every deletion that was begun has been carried out. Dependents
whose owners are unknown do not count: they may stay for as long as the owners
are unknown. An object that waits until its controller reports
status.observedGeneration does not count either.`,
		Args: cobra.NoArgs,
	}
	c.RunE = a.in(func(ctx context.Context, s *session, _ []string) error {
		if !idle {
			return a.usage(c, errors.New("say what to wait for: --idle"))
		}
		return s.waitIdle(ctx, timeout)
	})
	c.Flags().BoolVar(&idle, "idle", false, "wait until nothing is left to do")
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait; 0: without end")
	a.clientFlags(c)
	return c
}

// waitIdle asks for the status until it is idle, and prints what it waits for
// whenever that changes.
func (s *session) waitIdle(ctx context.Context, timeout time.Duration) error {
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	printed, waiting := "", ""
	for {
		start := s.now()
		status, err := s.c.Status(limited)
		switch {
		case err == nil && status.GetIdle():
			_, err := fmt.Fprintf(s.stdout, "idle at revision %d\n", status.GetRevision())
			return err
		case err == nil:
			waiting = pendingText(status)
		case limited.Err() != nil:
		case rpc.Retryable(err):
			waiting = "no answer: " + err.Error()
		default:
			return err
		}
		if waiting != printed && limited.Err() == nil {
			printed = waiting
			if _, err := fmt.Fprintln(s.stderr, "waiting: "+printable(waiting)); err != nil {
				return err
			}
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("not idle after %s: %s", timeout, waiting)
		case <-time.After(max(lookEvery, lookShares*s.now().Sub(start))):
		}
	}
}

// pendingNames says what each kind of pending work is, after a count.
var pendingNames = map[string]string{
	"evaluate":  "owners with dependents for processors",
	"orphan":    "owners that orphan dependents",
	"finish":    "built-in finalizers to complete",
	"finalize":  "objects with external finalizers",
	"terminate": "objects that an agent ends",
	"blocked":   "owners that dependents block",
	"drain":     "namespaces and kinds that are drained",
}

// pendingText lists pending work, apart from what does not count.
func pendingText(status *client.Status) string {
	var parts []string
	for _, w := range status.GetPending() {
		if name, ok := pendingNames[w.GetSort()]; ok {
			parts = append(parts, fmt.Sprintf("%d %s", w.GetRows(), name))
		}
	}
	return strings.Join(parts, ", ")
}
