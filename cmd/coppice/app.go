package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/user"
	"regexp"
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

// ink colours the output of commands.
func (a *app) ink() console.Ink { return console.NewInk(a.terminal) }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
