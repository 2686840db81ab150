package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/user"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
)

// app is what all commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	dial           dial.Config
	realm, actor   string
	// givenNamespace is the namespace that --namespace names; "" if it was not given.
	givenNamespace string
	// offline is the directory of a recording that is read instead of a realm; "" for none.
	offline string
	// at is the point of the past that is read; "" for the present.
	at string
	// ending is called when the connection of a session is closed; nil for nothing.
	ending  func() error
	verbose bool
	now     func() time.Time
	// terminal is true if stdout is a terminal.
	terminal bool
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now, terminal: isTerminal(stdout)}
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
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return a.usage(c, flagError(c, err)) })
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "log more")
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Start here:"},
		&cobra.Group{ID: "objects", Title: "Objects:"},
		&cobra.Group{ID: "operate", Title: "Operate:"},
		&cobra.Group{ID: "services", Title: "Services, each a process of its own:"},
	)
	root.SetHelpCommandGroupID("operate")
	root.SetCompletionCommandGroupID("operate")
	root.AddCommand(a.commands()...)
	// Without arguments root prints its help; with an unknown command it was
	// called wrongly.
	root.Args = unknownCommand
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	a.wrapArgs(root)
	a.wrapRuns(root)
	eachOnce(root)
	root.PersistentPreRun = func(c *cobra.Command, _ []string) {
		if c.Name() == cobra.ShellCompRequestCmd {
			a.completeFlags(root)
		}
	}
	return root
}

// wrapArgs turns the errors of argument checks, of a command and its sub-commands, into
// usageErrors.
func (a *app) wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return a.usage(c, err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		a.wrapArgs(sub)
	}
}

// usage marks an error as a wrong call of a command.
func (a *app) usage(c *cobra.Command, err error) error {
	name := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ")
	return &usageError{command: name, err: err}
}

// client connects as a person or a script does. The connection must be closed.
func (a *app) client(ctx context.Context, opts ...client.Option) (*client.Client, *nats.Conn, error) {
	if err := a.dial.Complete(); err != nil {
		return nil, nil, err
	}
	if a.offline != "" {
		return a.offlineClient()
	}
	if a.realm != "" { // it is empty for commands about all realms
		if err := bus.CheckRealm(a.realm); err != nil {
			return nil, nil, err
		}
	}
	actor := a.actor
	if actor == "" {
		var err error
		if actor, err = a.defaultActor(); err != nil {
			return nil, nil, err
		}
	}
	if err := bus.CheckActor(actor); err != nil {
		return nil, nil, err
	}
	a.dial.Actor = actor
	nc, err := a.dial.Client(ctx, "coppice")
	if err != nil {
		return nil, nil, err
	}
	opts = append([]client.Option{
		client.WithRealm(a.realm), client.WithActor(actor), client.WithTimeout(a.dial.Timeout), client.WithRetryTimeout(a.dial.Timeout),
	}, opts...)
	return client.New(nc, opts...), nc, nil
}

// defaultActor is the NATS user, whose permissions pin the actor, or else the
// user of this machine.
func (a *app) defaultActor() (string, error) {
	name, err := a.dial.UserName()
	if err != nil || name != "" {
		return name, err
	}
	if a.dial.NKey != "" {
		return "", errors.New("the user of an nkey is not known: name the user's actor with --actor, and its inbox with --inbox-prefix unless that is _INBOX.<actor>")
	}
	if u, err := user.Current(); err == nil {
		if name := regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(u.Username, "-"); name != "" {
			return name, nil
		}
	}
	return "coppice", nil
}

// clientFlags adds the flags of commands that talk to a realm. A command that has its own
// flag with the name of a connection flag must add it before it calls clientFlags.
func (a *app) clientFlags(c *cobra.Command) {
	connection := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	a.dial.Flags(connection)
	c.Flags().AddFlagSet(connection)
	realm := os.Getenv("COPPICE_REALM")
	if realm == "" {
		realm = bus.DefaultRealm
	}
	c.Flags().StringVar(&a.realm, "realm", realm, "realm ($COPPICE_REALM)")
	a.actorFlag(c)
}

func (a *app) actorFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.actor, "actor", os.Getenv("COPPICE_ACTOR"), "name under which the log records what is done ($COPPICE_ACTOR; default: the user)")
}

// logger logs for people: to stderr, in text.
func (a *app) logger() *slog.Logger { return a.loggerAt(slog.LevelInfo) }

// quietLogger logs what a person should look at.
func (a *app) quietLogger() *slog.Logger { return a.loggerAt(slog.LevelWarn) }

func (a *app) loggerAt(level slog.Level) *slog.Logger {
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// columns is how wide the terminal is, zero if that is not known.
func (a *app) columns() int {
	f, ok := a.stdout.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ink colours the output of commands.
func (a *app) ink() console.Ink { return console.NewInk(a.terminal) }
