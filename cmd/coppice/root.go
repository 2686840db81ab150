package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	return rootOf(newApp(stdin, stdout, stderr))
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	return &cli.App{Stdin: stdin, Stdout: stdout, Stderr: stderr, Clock: time.Now, Terminal: cli.IsTerminal(stdout)}
}

// rootOf returns the command line of an app.
func rootOf(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "coppice",
		Short: "Garbage collection of anything that has an identity",
		Long: `Coppice is a garbage collector for resources outside of Kubernetes: owner references,
finalizers and cascading deletion by Kubernetes' rules, as a service on NATS.

Start with 'coppice demo', or with 'coppice up' and 'coppice import -f DIR'.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return cli.NewUsageError(c, flagError(c, err)) })
	root.PersistentFlags().BoolVarP(&a.Verbose, "verbose", "v", false, "log more")
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Start here:"},
		&cobra.Group{ID: "objects", Title: "Objects:"},
		&cobra.Group{ID: "operate", Title: "Operate:"},
		&cobra.Group{ID: "services", Title: "Services, each a process of its own:"},
	)
	root.SetHelpCommandGroupID("operate")
	root.SetCompletionCommandGroupID("operate")
	root.AddCommand(commands(a)...)
	// Without arguments root prints its help; with an unknown command it was
	// called wrongly.
	root.Args = cli.UnknownCommand
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	nameVariables(root)
	wrapArgs(root)
	wrapRuns(a, root)
	eachOnce(root)
	root.PersistentPreRun = func(c *cobra.Command, _ []string) {
		if c.Name() == cobra.ShellCompRequestCmd {
			a.CompleteFlags(root)
		}
	}
	return root
}

// wrapArgs turns the errors of argument checks, of a command and its sub-commands, into
// errors of type cli.UsageError.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return cli.NewUsageError(c, err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}
