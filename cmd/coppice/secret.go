package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/secret"
)

// loadSecrets returns the secrets of an installation: those in the file, if one is
// named, or in the environment, or in the data directory, where one is drawn if
// there is none.
func loadSecrets(file, data string) (secret.Secrets, error) {
	if file != "" {
		s, err := secret.Load(file)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; draw one with 'coppice secret new %s', and give every graph service a copy", err, file)
		}
		return s, err
	}
	if text := os.Getenv(secret.Env); text != "" {
		s, err := secret.Parse([]byte(text))
		if err != nil {
			err = fmt.Errorf("$%s: %w", secret.Env, err)
		}
		return s, err
	}
	return secret.LoadOrDraw(filepath.Join(data, secret.FileName))
}

func (a *app) secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "secret",
		GroupID: "operate",
		Short:   "Draw the secret with which graph services authenticate the log",
		Long: `Secret makes the file that 'coppice graph --secret' reads. Graph services derive
from it, for each realm, the key of the commits in its log: a message that was not
written with the key is no commit, and every graph service skips it.

Nothing else needs the secret. Without it no graph service can start on the log:
keep a copy where the backups are.`,
	}
	c.AddCommand(&cobra.Command{
		Use:   "new FILE",
		Short: "Write a file with a new secret",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			err := secret.Save(args[0], secret.Secrets{}.Draw())
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists, and stays as it is: the log that was written with its secret needs it; 'coppice secret add' adds another", args[0])
			}
			if err == nil {
				_, err = fmt.Fprintf(a.stdout, "%s has secret 1\n", args[0])
			}
			return err
		},
	}, &cobra.Command{
		Use:   "add FILE",
		Short: "Add a secret to the file, after a restore",
		Long: `Add draws another secret, with the next number, and keeps the older ones, which
older commits need. Do it after the log was restored from a backup, before the
graph services start: a user may have copies of commits that were lost, and
could put them into the log again. Give every graph service a copy of the file
before any of them starts.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := secret.Load(args[0])
			if err == nil {
				s = s.Draw()
				err = secret.Replace(args[0], s)
			}
			if err == nil {
				_, err = fmt.Fprintf(a.stdout, "%s has secret %d\n", args[0], s.Newest())
			}
			return err
		},
	})
	return c
}
