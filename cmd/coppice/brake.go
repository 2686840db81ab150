package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

func (a *app) brakeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "brake",
		GroupID: "operate",
		Short:   "Show or release the brakes of kinds",
		Long: `The brake of a kind bounds how many of its objects the collector deletes within a window.
When the bound is exceeded, the collector deletes no more of them until the brake is
released. What users delete is never counted and never refused.`,
		Args: unknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var output string
	status := &cobra.Command{
		Use:   "status",
		Short: "Show the brakes of the realm",
		Args:  cobra.NoArgs,
		RunE:  a.in(func(ctx context.Context, s *session, _ []string) error { return s.brakes(ctx, output) }),
	}
	status.Flags().StringVarP(&output, "output", "o", formatText, "text or json")
	completeFlag(status, "output", textFormats()...)
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
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.releaseBrake(ctx, args[0], dryRun)
		}),
	}
	release.Flags().BoolVar(&dryRun, "dry-run", false, "say what the release would let through, and change nothing")
	for _, sub := range []*cobra.Command{status, release} {
		a.clientFlags(sub)
		c.AddCommand(sub)
	}
	return c
}

func (s *session) brakes(ctx context.Context, output string) error {
	if err := checkFormat(output, textFormats()...); err != nil {
		return err
	}
	list, err := s.c.Operations().Brakes(ctx)
	if err != nil {
		return err
	}
	if output == formatJSON {
		e := json.NewEncoder(s.stdout)
		e.SetIndent("", "    ")
		return e.Encode(list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(s.stderr, "no kind has a brake")
		return err
	}
	unused := 0
	t := console.Table{W: s.stdout}
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
			since = console.Clock(time.UnixMicro(b.GetSince()), s.now())
		}
		if b.GetTripped() != 0 {
			state = "tripped at " + console.Clock(time.UnixMicro(b.GetTripped()), s.now())
		}
		if err := t.Text(b.GetResource(), brakePolicy(b), fmt.Sprintf("%d of %d", b.GetCounted(), b.GetLimit()), since, state); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil || unused == 0 {
		return err
	}
	_, err = fmt.Fprintf(s.stderr, "%s more: nothing of them is counted\n", console.Count(unused, "kind"))
	return err
}

// brakePolicy describes the bounds of a brake, as in "1000 objects or 10% in 10m0s".
func brakePolicy(b *client.BrakeStatus) string {
	window := time.Duration(b.GetWindowMilliseconds()) * time.Millisecond
	switch {
	case b.GetPercent() == 0:
		return fmt.Sprintf("%s in %s", console.Count(int(b.GetObjects()), "object"), window)
	case b.GetObjects() == 0:
		return fmt.Sprintf("%d%% in %s", b.GetPercent(), window)
	}
	return fmt.Sprintf("%s or %d%% in %s", console.Count(int(b.GetObjects()), "object"), b.GetPercent(), window)
}

func (s *session) releaseBrake(ctx context.Context, name string, dryRun bool) error {
	k, err := s.find(name)
	if err != nil {
		return err
	}
	resource := client.ResourceOf(k)
	r, err := s.c.Operations().ReleaseBrake(ctx, resource, client.DryRun(dryRun))
	if err != nil {
		return err
	}
	text := fmt.Sprintf("the brake of %s is released: %s pending at revision %d go", resource, console.Count(int(r.GetReleased()), "deletion"), r.GetPendingRevision())
	switch {
	case !r.GetTripped():
		text = fmt.Sprintf("the brake of %s was not tripped", resource)
	case dryRun:
		text = fmt.Sprintf("a release of the brake of %s would let %s through, at revision %d", resource, console.Count(int(r.GetReleased()), "deletion"), r.GetPendingRevision())
	case r.GetMore():
		text = fmt.Sprintf("the brake of %s lets %s through that were pending at revision %d, and stays tripped: more are pending; release it again", resource, console.Count(int(r.GetReleased()), "deletion"), r.GetPendingRevision())
	}
	_, err = fmt.Fprintln(s.stdout, text)
	return err
}
