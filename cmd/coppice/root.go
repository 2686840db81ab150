package main

import (
	"io"
	"log/slog"
	"os"
	"os/user"
	"regexp"
	"runtime/debug"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
)

// app is what all commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	dial           dial.Config
	realm, actor   string
	verbose        bool
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use:   "coppice",
		Short: "Garbage collection of anything that has an identity",
		Long: `Coppice gives anything that has an identity what Kubernetes gives its own
objects: owner references, finalizers and cascading deletion, on NATS.

Start with 'coppice demo', or with 'coppice up' and 'coppice import -f DIR'.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return a.usage(c, err) })
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "log more")
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Start here:"},
		&cobra.Group{ID: "objects", Title: "Objects:"},
		&cobra.Group{ID: "operate", Title: "Operate:"},
		&cobra.Group{ID: "services", Title: "Services, each a process of its own:"},
	)
	root.AddCommand(a.commands()...)
	return root
}

// usage marks an error as a wrong call of a command.
func (a *app) usage(c *cobra.Command, err error) error {
	name := ""
	if c.HasParent() {
		name = c.Name() + " "
	}
	return &usageError{command: name, err: err}
}

// client connects as a person or a script does. The connection must be closed.
func (a *app) client() (*client.Client, *nats.Conn, error) {
	if err := a.dial.Complete(); err != nil {
		return nil, nil, err
	}
	if err := bus.CheckRealm(a.realm); err != nil {
		return nil, nil, err
	}
	actor := a.actor
	if actor == "" {
		actor = a.defaultActor()
	}
	if err := bus.CheckActor(actor); err != nil {
		return nil, nil, err
	}
	nc, err := a.dial.Client("coppice")
	if err != nil {
		return nil, nil, err
	}
	return client.New(nc, client.WithRealm(a.realm), client.WithActor(actor), client.WithTimeout(a.dial.Timeout)), nc, nil
}

// defaultActor is the NATS user, whose permissions pin the actor, or else the
// user of this machine.
func (a *app) defaultActor() string {
	if a.dial.User != "" && a.dial.Password != "" {
		return a.dial.User
	}
	if u, err := user.Current(); err == nil {
		if name := regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(u.Username, "-"); name != "" {
			return name
		}
	}
	return "coppice"
}

// clientFlags adds the flags of commands that talk to a realm.
func (a *app) clientFlags(c *cobra.Command) {
	a.dial.Flags(c.Flags())
	realm := os.Getenv("COPPICE_REALM")
	if realm == "" {
		realm = bus.DefaultRealm
	}
	c.Flags().StringVar(&a.realm, "realm", realm, "realm ($COPPICE_REALM)")
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

// terminal reports whether stdout is one.
func (a *app) terminal() bool {
	f, ok := a.stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// version is the version of the module, as the build knows it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "0.1.0-dev"
	}
	return info.Main.Version
}
