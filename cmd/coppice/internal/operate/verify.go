package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// VerifyCommand returns the command `coppice verify`.
func VerifyCommand(a *cli.App) *cobra.Command {
	var timeout time.Duration
	var full bool
	c := &cobra.Command{
		Use:     "verify",
		GroupID: "operate",
		Short:   "Compare a realm's state with its log",
		Long: `Let a replica fold the event log into a second state, and compare the result with the
state that it serves, row by row. Nothing is changed; the realm stays available.

If the realm has an archive, the fold begins with the newest verified snapshot. With
--full it begins with the first commit, and reads commits that were cut from the log
from the archive: then it takes as long as a rebuild.`,
		Args: cobra.NoArgs,
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, _ []string) error {
			return Verify(ctx, s, timeout, full)
		}),
	}
	c.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long to wait for the result")
	c.Flags().BoolVar(&full, "full", false, "begin with the first commit, and not with the newest verified snapshot of the archive")
	a.ClientFlags(c)
	a.OfflineFlag(c)
	return c
}

// Verify compares the state of the realm with its log, as `coppice verify` does.
func Verify(ctx context.Context, s *cli.Session, timeout time.Duration, full bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err := s.Client.Operations().Verify(ctx, client.FromFirstCommit(full))
	if err != nil {
		return err
	}
	if v.GetDifference() != "" {
		return fmt.Errorf("the state differs from the log at sequence %d, revision %d: %s; rebuild it with 'coppice rebuild'",
			v.GetSequence(), v.GetRevision(), v.GetDifference())
	}
	events := terminal.Count(int(v.GetEvents()), "event")
	if v.GetSnapshot() > 0 {
		events += fmt.Sprintf(" since the verified snapshot of commit %d", v.GetSnapshot())
	}
	_, err = fmt.Fprintf(s.Stdout, "state equals the log: %s, %s, revision %d\n", terminal.Count(int(v.GetObjects()), "object"), events, v.GetRevision())
	return err
}
