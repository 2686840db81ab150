package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// LeaderCommand returns the command `coppice leader`.
func LeaderCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "leader",
		GroupID: "operate",
		Short:   "List the leaders of controllers",
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var output string
	list := &cobra.Command{
		Use:   "list",
		Short: "List the controllers that elect a leader, and which process leads",
		Long: `List the leases by which the processes of controllers elect a leader: the actor and the
name of each, what its leader says about itself, for how long the lease lasts without a
renewal, and when it was last renewed, by the clock of the NATS server. A lease that was
not renewed for that long has ended: its process crashed, and no other one has taken over.`,
		Example: `  coppice leader list`,
		Args:    cobra.NoArgs,
		RunE:    a.InSession(func(ctx context.Context, s *cli.Session, _ []string) error { return listLeaders(ctx, s, output) }),
	}
	list.Flags().StringVarP(&output, "output", "o", cli.FormatTable, "table or json")
	cli.CompleteFlag(list, "output", cli.FormatTable, cli.FormatJSON)
	a.ClientFlags(list)
	c.AddCommand(list)
	return c
}

// leaderJSON is a leader, for programs.
type leaderJSON struct {
	Actor   string    `json:"actor"`
	Lease   string    `json:"lease"`
	Leader  string    `json:"leader"`
	TTL     string    `json:"ttl"`
	Renewed time.Time `json:"renewed"`
}

func listLeaders(ctx context.Context, s *cli.Session, output string) error {
	if err := cli.CheckFormat(output, cli.FormatTable, cli.FormatJSON); err != nil {
		return err
	}
	found, err := s.Client.Operations().Leaders(ctx)
	if err != nil {
		return err
	}
	list := []leaderJSON{}
	for _, l := range found {
		list = append(list, leaderJSON{
			l.GetActor(), l.GetName(), l.GetLeader(), (time.Duration(l.GetTtl()) * time.Millisecond).String(), time.UnixMicro(l.GetRenewed()).UTC(),
		})
	}
	switch {
	case output == cli.FormatJSON:
		return s.WriteJSON(list)
	case len(list) == 0:
		_, _ = fmt.Fprintln(s.Stderr, "no controller has a leader")
		return nil
	}
	t := terminal.Table{W: s.Stdout}
	if err := t.Text("ACTOR", "LEASE", "LEADER", "TTL", "RENEWED"); err != nil {
		return err
	}
	for _, l := range list {
		if err := t.Text(l.Actor, l.Lease, terminal.Printable(l.Leader), l.TTL, terminal.Age(s.Clock().Sub(l.Renewed))+" ago"); err != nil {
			return err
		}
	}
	return t.Flush()
}
