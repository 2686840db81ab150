package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

func (a *app) verifyCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:     "verify",
		GroupID: "operate",
		Short:   "Compare a realm's state with its log",
		Long: `Let a replica fold the whole event log into an empty state, and compare the result
with the state that it serves, row by row. Nothing is changed. It takes as long as a
rebuild; the realm stays available.`,
		Args: cobra.NoArgs,
		RunE: a.in(func(ctx context.Context, s *session, _ []string) error {
			return s.verify(ctx, timeout)
		}),
	}
	c.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long to wait for the result")
	a.clientFlags(c)
	a.offlineFlag(c)
	return c
}

func (s *session) verify(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err := s.c.Operations().Verify(ctx)
	if err != nil {
		return err
	}
	if v.GetDifference() != "" {
		return fmt.Errorf("the state differs from the log at sequence %d, revision %d: %s; rebuild it with 'coppice rebuild'",
			v.GetSequence(), v.GetRevision(), v.GetDifference())
	}
	_, err = fmt.Fprintf(s.stdout, "state equals the log: %s, %s, revision %d\n",
		console.Count(int(v.GetObjects()), "object"), console.Count(int(v.GetEvents()), "event"), v.GetRevision())
	return err
}
