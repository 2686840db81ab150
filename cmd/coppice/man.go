package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/manual"
)

func manCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "man DIR",
		GroupID: "operate",
		Short:   "Write the manual pages of all commands",
		Long: `Write the manual pages of all commands into a directory, such as coppice-delete.1, for man(1).
Their date is that of the commit from which this program was built, or SOURCE_DATE_EPOCH.
The directory is created if it does not exist. The command does not connect to NATS.`,
		Example: `  coppice man /usr/local/share/man/man1`,
		Args:    cobra.ExactArgs(1),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		info, _ := debug.ReadBuildInfo()
		build := buildOf(info)
		source := manual.Source{Version: build.Version}
		if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
			seconds, err := strconv.ParseInt(epoch, 10, 64)
			if err != nil {
				return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
			}
			source.Date = time.Unix(seconds, 0)
		} else if build.CommitTime != "" {
			var err error
			if source.Date, err = time.Parse(time.RFC3339, build.CommitTime); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return err
		}
		pages := manual.Pages(c.Root())
		for _, of := range pages {
			var page bytes.Buffer
			if err := manual.Write(&page, of, source); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(args[0], manual.Name(of)+".1"), page.Bytes(), 0o644); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(a.Stdout, "%d pages in %s\n", len(pages), args[0])
		return err
	}
	return c
}
