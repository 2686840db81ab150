package realm

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

// Command returns the command `coppice realm` with its sub-commands.
func Command(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "realm",
		GroupID: "operate",
		Short:   "Create, list, change, restore, resume and delete realms",
		Long: `Create, list, change and delete realms while services run. A realm is a world of its
own: kinds, objects, log and settings.

Graph services and the services that work for them follow the list of realms. A new
realm needs no restart, and no change of the NATS server's configuration. The user
needs permission for the verbs createrealm, listrealms and deleterealm, which
operators have.`,
		Args: cli.UnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, sub := range []*cobra.Command{
		createCommand(a), listCommand(a), describeCommand(a), setCommand(a), resumeCommand(a), deleteCommand(a),
	} {
		connection := pflag.NewFlagSet("connection", pflag.ContinueOnError)
		a.Dial.Flags(connection)
		sub.Flags().AddFlagSet(connection)
		a.ActorFlag(sub)
		if name := sub.Name(); name != "create" && name != "list" {
			sub.ValidArgsFunction = a.CompleteFirst(a.CompleteRealms())
		}
		c.AddCommand(sub)
	}
	c.AddCommand(restoreCommand(a))
	return c
}

func resumeCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME",
		Short: "End the pause of a realm that was restored or replayed",
		Long: `End the pause of a realm that was restored from an archive, or replayed from a file. From
then on its collector deletes objects, finalizers are called, and clients can write.
Look at the realm first: reads and 'coppice plan' work while it is paused.`,
		Args: cobra.ExactArgs(1),
		RunE: inRealm(a, func(ctx context.Context, s *cli.Session, args []string) error {
			return resumeRealm(ctx, s, args[0])
		}),
	}
}

func resumeRealm(ctx context.Context, s *cli.Session, name string) error {
	resumed, err := s.Client.Operations().Resume(ctx)
	if err != nil {
		return err
	}
	text := "realm %s is resumed\n"
	if !resumed {
		text = "realm %s was not paused\n"
	}
	_, err = fmt.Fprintf(s.Stdout, text, name)
	return err
}
