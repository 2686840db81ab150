package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/secret"
)

func secretCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "secret",
		GroupID: "operate",
		Short:   "Generate the secret with which graph services authenticate the log",
		Long: `Generate the file that 'coppice graph --secret' reads. Graph services derive from
it, for each realm, the key that authenticates the commits in its log. They skip
messages that were not written with the key.

No other service needs the secret. Without it no graph service can start on the log:
keep a copy, in another place than the backups.`,
	}
	c.AddCommand(&cobra.Command{
		Use:   "new FILE",
		Short: "Write a file with a new secret",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			err := secret.Save(args[0], secret.Secrets{}.Draw())
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists, and was not changed: the log that was written with its secret needs it; add another secret with 'coppice secret add'", args[0])
			}
			if err == nil {
				_, err = fmt.Fprintf(a.Stdout, "%s has secret 1\n", args[0])
			}
			return err
		},
	}, &cobra.Command{
		Use:   "add FILE",
		Short: "Add a secret to the file, after a restore",
		Long: `Add a new secret with the next number, and keep the older ones, which older commits
need. Do this after the log was restored from a backup, before the graph services
start: otherwise a user with copies of lost commits could put them into the log
again. Give every graph service a copy of the file before any of them starts.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := secret.Load(args[0])
			if err == nil {
				s = s.Draw()
				err = secret.Replace(args[0], s)
			}
			if err == nil {
				_, err = fmt.Fprintf(a.Stdout, "%s has secret %d\n", args[0], s.Newest())
			}
			return err
		},
	})
	return c
}
