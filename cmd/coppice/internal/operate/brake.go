package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// BrakeCommand returns the command `coppice brake`.
func BrakeCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "brake",
		GroupID: "operate",
		Short:   "Show or release the brakes of kinds",
		Long: `The brake of a kind bounds how many of its objects the collector deletes within a window.
When the bound is exceeded, the collector deletes no more of them until the brake is
released. What users delete is never counted and never refused.`,
		Args: cli.UnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var output string
	status := &cobra.Command{
		Use:   "status",
		Short: "Show the brakes of the realm",
		Args:  cobra.NoArgs,
		RunE:  a.InSession(func(ctx context.Context, s *cli.Session, _ []string) error { return listBrakes(ctx, s, output) }),
	}
	status.Flags().StringVarP(&output, "output", "o", cli.FormatText, "text or json")
	cli.CompleteFlag(status, "output", cli.TextFormats()...)
	var dryRun bool
	release := &cobra.Command{
		Use:   "release KIND",
		Short: "Release the brake of a kind",
		Long: `Release the brake of a kind. It lets through the deletions that the brake pauses now, and
those that follow from them by the plan at that revision. It lets through nothing else: until
the window ends, other deletions trip the brake again.`,
		Example: `  coppice brake release pods --dry-run
  coppice brake release pods`,
		Args: cobra.ExactArgs(1),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return releaseBrake(ctx, s, args[0], dryRun)
		}),
	}
	release.Flags().BoolVar(&dryRun, "dry-run", false, "say what the release would let through, and change nothing")
	for _, sub := range []*cobra.Command{status, release} {
		a.ClientFlags(sub)
		c.AddCommand(sub)
	}
	return c
}

func listBrakes(ctx context.Context, s *cli.Session, output string) error {
	if err := cli.CheckFormat(output, cli.TextFormats()...); err != nil {
		return err
	}
	list, err := s.Client.Operations().Brakes(ctx)
	if err != nil {
		return err
	}
	if output == cli.FormatJSON {
		e := json.NewEncoder(s.Stdout)
		e.SetIndent("", "    ")
		return e.Encode(list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(s.Stderr, "no kind has a brake")
		return err
	}
	unused := 0
	t := terminal.Table{W: s.Stdout}
	if err := t.Text("KIND", "BRAKE", "DELETED", "SINCE", "STATE"); err != nil {
		return err
	}
	for _, b := range list {
		if b.GetCounted() == 0 && b.GetTripped() == 0 {
			unused++
			continue
		}
		since, state := "-", "open"
		if b.GetSince() != 0 {
			since = terminal.Clock(time.UnixMicro(b.GetSince()), s.Clock())
		}
		if b.GetTripped() != 0 {
			state = "tripped at " + terminal.Clock(time.UnixMicro(b.GetTripped()), s.Clock())
		}
		if err := t.Text(b.GetResource(), brakePolicy(b), fmt.Sprintf("%d of %d", b.GetCounted(), b.GetLimit()), since, state); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil || unused == 0 {
		return err
	}
	_, err = fmt.Fprintf(s.Stderr, "%s more: nothing of them is counted\n", terminal.Count(unused, "kind"))
	return err
}

// brakePolicy describes the bounds of a brake, as in "1000 objects or 10% in 10m0s".
func brakePolicy(b *client.BrakeStatus) string {
	window := time.Duration(b.GetWindowMilliseconds()) * time.Millisecond
	switch {
	case b.GetPercent() == 0:
		return fmt.Sprintf("%s in %s", terminal.Count(int(b.GetObjects()), "object"), window)
	case b.GetObjects() == 0:
		return fmt.Sprintf("%d%% in %s", b.GetPercent(), window)
	}
	return fmt.Sprintf("%s or %d%% in %s", terminal.Count(int(b.GetObjects()), "object"), b.GetPercent(), window)
}

func releaseBrake(ctx context.Context, s *cli.Session, name string, dryRun bool) error {
	k, err := s.FindKind(name)
	if err != nil {
		return err
	}
	resource := client.ResourceOf(k)
	r, err := s.Client.Operations().ReleaseBrake(ctx, resource, client.DryRun(dryRun))
	if err != nil {
		return err
	}
	text := fmt.Sprintf("the brake of %s is released: %s pending at revision %d go", resource, terminal.Count(int(r.GetReleased()), "deletion"), r.GetPendingRevision())
	switch {
	case !r.GetTripped():
		text = fmt.Sprintf("the brake of %s was not tripped", resource)
	case dryRun:
		text = fmt.Sprintf("a release of the brake of %s would let %s through, at revision %d", resource, terminal.Count(int(r.GetReleased()), "deletion"), r.GetPendingRevision())
	case r.GetMore():
		text = fmt.Sprintf("the brake of %s lets %s through that were pending at revision %d, and stays tripped: more are pending; release it again", resource, terminal.Count(int(r.GetReleased()), "deletion"), r.GetPendingRevision())
	}
	_, err = fmt.Fprintln(s.Stdout, text)
	return err
}
