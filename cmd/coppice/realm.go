package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/bus"
)

func (a *app) realmCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "realm",
		GroupID: "operate",
		Short:   "Resume realms",
		Args:    unknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.realmResumeCommand())
	return c
}

func (a *app) realmResumeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "resume NAME",
		Short: "End the pause of a realm that was restored or replayed",
		Long: `End the pause of a realm that was restored from an archive, or replayed from a file. From
then on its collector deletes objects, finalizers are called, and clients can write.
Look at the realm first: reads and 'coppice plan' work while it is paused.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := bus.CheckRealm(args[0]); err != nil {
				return a.usage(c, err)
			}
			a.realm = args[0]
			return a.resume(c.Context())
		},
	}
	a.clientFlags(c)
	return c
}

func (a *app) resume(ctx context.Context) error {
	c, nc, err := a.client()
	if err != nil {
		return err
	}
	defer nc.Close()
	resumed, err := c.Operations().Resume(ctx)
	if err != nil {
		return err
	}
	text := "realm %s is resumed\n"
	if !resumed {
		text = "realm %s was not paused\n"
	}
	_, err = fmt.Fprintf(a.stdout, text, a.realm)
	return err
}
