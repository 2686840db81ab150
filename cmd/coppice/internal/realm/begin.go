package realm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph/continuation"
)

// BeginFlags say where a realm begins that continues another log.
type BeginFlags struct {
	Archive  string // the URL of the archive of its graph services
	Data     string
	secret   string
	temp     string
	replicas int
}

// Add adds the flags, and those of a connection.
func (f *BeginFlags) Add(a *cli.App, c *cobra.Command) {
	a.Dial.Flags(c.Flags())
	c.Flags().StringVar(&f.Archive, "archive", "", "URL of the archive of the graph services that will serve the realm (default: see above)")
	c.Flags().StringVar(&f.Data, "data", "", "directory of all data, of 'coppice up'")
	c.Flags().StringVar(&f.secret, "secret", "", "file of the installation's secret, without --data ($COPPICE_SECRET holds the secret itself)")
	c.Flags().StringVar(&f.temp, "temp", "", "directory for the state while it is built, which becomes as large as the realm's state (default: the directory of --data; otherwise that of temporary files)")
	c.Flags().IntVar(&f.replicas, "replicas", 0, "number of NATS servers that keep the stream of the log (default: as many as keep the list of realms, or 1)")
}

// MkdirTemp creates a directory for the state while it is built.
func (f *BeginFlags) MkdirTemp(prefix string) (string, error) {
	return os.MkdirTemp(cmp.Or(f.temp, f.Data), prefix)
}

// Check returns an error for a number of replicas that no stream can have, and for flags of a
// NATS server next to --data.
func (f *BeginFlags) Check(c *cobra.Command) error {
	if c.Flags().Changed("replicas") {
		if err := cli.CheckReplicas(f.replicas); err != nil {
			return err
		}
	}
	if f.Data == "" {
		return nil
	}
	for _, name := range []string{"server", "user", "context", "secret", "replicas"} {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s concerns a NATS server, and --data names a directory: leave out one of them", name)
		}
	}
	return nil
}

// BeginTarget is where a realm begins.
type BeginTarget struct {
	Conn    *nats.Conn
	Secrets secret.Secrets
	archive string // the default of --archive; "" for none
	Close   func()
}

// Target connects to the NATS server, or starts that of the directory. The target must be closed.
func (f *BeginFlags) Target(ctx context.Context, a *cli.App, realm string) (t BeginTarget, err error) {
	t.Close = func() {}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if f.Data == "" {
		if f.secret == "" && os.Getenv(secret.Env) == "" {
			return t, cli.UsageErrorf("name --data DIR of 'coppice up', or the installation's secret with --secret FILE or $%s", secret.Env)
		}
		if t.Secrets, err = cli.LoadSecrets(f.secret, ""); err != nil {
			return t, err
		}
		if err := a.Dial.Complete(); err != nil {
			return t, err
		}
		if t.Conn, err = a.Dial.Service(ctx, "coppice-restore", a.QuietLogger()); err != nil {
			return t, err
		}
		t.Close = t.Conn.Close
		if f.replicas == 0 {
			f.replicas, err = installedReplicas(ctx, t.Conn)
		}
		return t, err
	}
	if t.Secrets, err = allinone.Secrets(f.Data); err != nil {
		return t, err
	}
	own, err := archive.InDirectory(filepath.Join(f.Data, cli.ArchiveDir))
	if err != nil {
		return t, err
	}
	t.archive = own.String()
	server, err := natsd.Start(natsd.Config{Dir: filepath.Join(f.Data, "nats"), Roles: bus.Roles(realm), Logf: func(format string, args ...any) {
		a.QuietLogger().Warn("nats: " + fmt.Sprintf(format, args...))
	}})
	if errors.Is(err, natsd.ErrInUse) {
		return t, fmt.Errorf("%s is in use: end the process that uses it, and try again", f.Data)
	}
	if err != nil {
		return t, err
	}
	t.Close = func() { _ = server.Shutdown() }
	nc, err := dial.Service(ctx, server.URL(), "coppice-restore", a.QuietLogger(), server.Options(bus.RoleGraph)...)
	if err == nil {
		t.Conn, t.Close = nc, func() {
			nc.Close()
			_ = server.Shutdown()
		}
	}
	return t, err
}

// installedReplicas returns how many servers store the streams of the installation.
func installedReplicas(ctx context.Context, nc *nats.Conn) (int, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	return bus.InstalledReplicas(ctx, js)
}

// Opener opens archives over the connection of a target.
func (f *BeginFlags) Opener(t BeginTarget) stores.Opener {
	return stores.Opener{Replicas: f.replicas, JetStream: func(context.Context) (jetstream.JetStream, error) { return jetstream.New(t.Conn) }}
}

// Config returns where the realm begins. It creates the archive unless that exists.
func (f *BeginFlags) Config(ctx context.Context, t BeginTarget, realm, fallback string) (c continuation.Config, err error) {
	to, err := archive.ParseLocation(cmp.Or(f.Archive, t.archive, fallback))
	if err != nil {
		return c, cli.UsageErrorf("%w", err)
	}
	store, err := f.Opener(t).Create(ctx, to)
	return continuation.Config{Conn: t.Conn, Realm: realm, Replicas: f.replicas, Secrets: t.Secrets, Archive: store, By: cli.Instance()}, err
}

// WriteBegun says that a realm was restored or replayed from something, and what to do next.
func WriteBegun(a *cli.App, b continuation.Begun, c continuation.Config, verb, from string) error {
	_, err := fmt.Fprintf(a.Stdout, "realm %s: %s %s at revision %d from %s, commit %d of realm id %x\n"+
		"its id is %x, and it is paused; its revisions continue at %d, and its graph services need the archive %s\nlook at it, then run: coppice realm resume %s\n",
		c.Realm, verb, terminal.Count(b.Objects, "object"), b.Revision, from, b.Origin.Sequence, b.Origin.RealmID,
		b.RealmID, b.Continues, c.Archive, c.Realm)
	return err
}
