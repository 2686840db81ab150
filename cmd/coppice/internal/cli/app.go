package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/user"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/term"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
)

// App is what all commands share: the streams, the connection, and the flags that say what is read.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Dial           dial.Config // how to connect to NATS
	// Realm is empty for commands about all realms.
	Realm, actor string
	// GivenNamespace is the namespace that --namespace names; "" if it was not given.
	GivenNamespace string
	// Offline is the directory of a recording that is read instead of a realm; "" for none.
	Offline string
	// At is the point of the past that is read; "" for the present.
	At string
	// ending is called when the connection of a session is closed; nil for nothing.
	ending  func() error
	Verbose bool
	// Log has the flags of commands that run services.
	Log LogOptions
	// leftOut has what replies lacked because the user may not see it.
	leftOut leftOut
	// Traces records spans; nil if none are exported.
	Traces trace.TracerProvider
	Clock  func() time.Time // returns the time
	// Terminal is true if stdout is a terminal.
	Terminal bool
}

// NewClient connects as a person or a script does. The connection must be closed.
func (a *App) NewClient(ctx context.Context, opts ...client.Option) (*client.Client, *nats.Conn, error) {
	if err := a.Dial.Complete(); err != nil {
		return nil, nil, err
	}
	if a.Offline != "" {
		return a.offlineClient()
	}
	if a.Realm != "" { // it is empty for commands about all realms
		if err := bus.CheckRealm(a.Realm); err != nil {
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
	a.Dial.Actor = actor
	nc, err := a.Dial.Client(ctx, "coppice")
	if err != nil {
		return nil, nil, err
	}
	opts = append([]client.Option{
		client.WithRealm(a.Realm), client.WithActor(actor), client.WithTimeout(a.Dial.Timeout), client.WithRetryTimeout(a.Dial.Timeout), client.WithTracerProvider(a.Traces),
		client.WithOnLeftOut(a.leftOut.add),
	}, opts...)
	return client.New(nc, opts...), nc, nil
}

// defaultActor is the NATS user, whose permissions pin the actor, or else the
// user of this machine.
func (a *App) defaultActor() (string, error) {
	name, err := a.Dial.UserName()
	if err != nil || name != "" {
		return name, err
	}
	if a.Dial.NKey != "" {
		return "", errors.New("the user of an nkey is not known: name the user's actor with $COPPICE_ACTOR or --actor (events and audit: --request-actor), and its inbox with --inbox-prefix unless that is _INBOX.<actor>")
	}
	return LocalActor(), nil
}

// LocalActor is the user of this machine, in letters that the name of an actor can have.
func LocalActor() string {
	if u, err := user.Current(); err == nil {
		if name := regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(u.Username, "-"); name != "" {
			return name
		}
	}
	return "coppice"
}

// ClientFlags adds the flags of commands that talk to a realm. A command that has its own
// flag with the name of a connection flag must add it before it calls ClientFlags.
func (a *App) ClientFlags(c *cobra.Command) {
	connection := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	a.Dial.Flags(connection)
	c.Flags().AddFlagSet(connection)
	realm, _, _ := strings.Cut(os.Getenv("COPPICE_REALM"), ",") // of services: their realms
	if realm == "" {
		realm = bus.DefaultRealm
	}
	c.Flags().StringVar(&a.Realm, "realm", realm, "realm ($COPPICE_REALM)")
	a.ActorFlag(c)
}

// ActorFlag adds --actor. A command whose own flag has this name must add that before; then the flag is --request-actor.
func (a *App) ActorFlag(c *cobra.Command) {
	if c.Flags().Lookup("actor") != nil {
		c.Flags().StringVar(&a.actor, "request-actor", os.Getenv("COPPICE_ACTOR"), "actor of the requests of this command, the --actor of other commands ($COPPICE_ACTOR; default: the user)")
		return
	}
	c.Flags().StringVar(&a.actor, "actor", os.Getenv("COPPICE_ACTOR"), "name under which the log records what is done ($COPPICE_ACTOR; default: the user)")
}

// Columns is how wide the terminal is, zero if that is not known.
func (a *App) Columns() int {
	f, ok := a.Stdout.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Ink colours the output of commands.
func (a *App) Ink() terminal.Ink { return terminal.NewInk(a.Terminal) }

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Bar returns a progress bar of nouns, of bytes without a noun. It is shown if stderr is a terminal.
func (a *App) Bar(label, noun string) *terminal.Bar {
	b := &terminal.Bar{Label: label, Noun: noun, Now: a.Clock}
	if IsTerminal(a.Stderr) {
		b.W = a.Stderr
	}
	return b
}

// WriteJSON writes a value to stdout, as indented JSON.
func (a *App) WriteJSON(v any) error {
	e := json.NewEncoder(a.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "    ")
	return e.Encode(v)
}
