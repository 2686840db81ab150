package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/graph/bootstrap"
	"github.com/coppice-gc/coppice/services/graph/origin"
	"github.com/coppice-gc/coppice/services/graph/state"
)

type restoreFlags struct {
	from, archive string
	data, secret  string
	id            string
	to            uint64
	replicas      int
}

func (a *app) realmRestoreCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore NAME --from URL",
		Short: "Restore a realm from an archive, under a name that has no log yet",
		Long: `Build the state of a realm from the snapshots and segments of an archive alone, and begin
a realm that continues it: with the same objects, uids and revisions, and an id and a key
of its own. The realm is paused until 'coppice realm resume NAME'.

--data names the directory of 'coppice up', which must not run. Otherwise connect to the
NATS server as the user of the graph service, and give the installation's secret. No
graph service may serve the realm meanwhile.

The graph services that serve the realm need the archive to which --archive refers: it
gets the snapshot from which they start. It is that of --from by default; with --data, it is the
directory archive in it.`,
		Example: `  coppice realm restore default --from file:///backup/archive --data ./restored
  coppice up --data ./restored`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := bus.CheckRealm(args[0]); err != nil {
				return a.usage(c, err)
			}
			if f.from == "" {
				return a.usage(c, errors.New("no archive is named: write --from URL"))
			}
			if f.data != "" {
				for _, name := range []string{"server", "user", "context", "secret", "replicas"} {
					if c.Flags().Changed(name) {
						return a.usage(c, fmt.Errorf("--%s concerns a NATS server, and --data restores into a directory: leave out one of them", name))
					}
				}
			}
			err := a.restore(c.Context(), args[0], f)
			var usage *usageError
			if errors.As(err, &usage) && usage.command == "" {
				return a.usage(c, usage.err)
			}
			return err
		},
	}
	a.dial.Flags(c.Flags())
	c.Flags().StringVar(&f.from, "from", "", "URL of the archive from which to restore: file:///dir, nats://bucket or s3://bucket/prefix?endpoint=URL")
	c.Flags().StringVar(&f.archive, "archive", "", "URL of the archive of the graph services that will serve the realm (default: see above)")
	c.Flags().StringVar(&f.data, "data", "", "directory of all data, of 'coppice up'")
	c.Flags().StringVar(&f.secret, "secret", "", "file of the installation's secret, without --data ($COPPICE_SECRET holds the secret itself)")
	c.Flags().StringVar(&f.id, "id", "", "id of the realm to restore, if the archive has several: see 'coppice archive ls'")
	c.Flags().Uint64Var(&f.to, "to", 0, "last commit to restore (default: the last one of the archive)")
	c.Flags().IntVar(&f.replicas, "replicas", 1, "number of NATS servers that keep the stream of the log")
	return c
}

// archiveDir is the directory of the archive in the data of `coppice up`.
const archiveDir = "archive"

// restoreTarget is where a realm is restored.
type restoreTarget struct {
	nc      *nats.Conn
	secrets secret.Secrets
	archive string // the default of --archive
	close   func()
}

func (a *app) restoreTarget(ctx context.Context, realm string, f restoreFlags) (t restoreTarget, err error) {
	if f.data == "" {
		if f.secret == "" && os.Getenv(secret.Env) == "" {
			return t, wrong("name --data DIR of 'coppice up', or the installation's secret with --secret FILE or $%s", secret.Env)
		}
		if t.secrets, err = loadSecrets(f.secret, ""); err != nil {
			return t, err
		}
		if err := a.dial.Complete(); err != nil {
			return t, err
		}
		t.archive = f.from
		t.nc, err = a.dial.Service(ctx, "coppice-restore", a.quietLogger())
		t.close = func() { t.nc.Close() }
		return t, err
	}
	if t.secrets, err = secret.LoadOrDraw(filepath.Join(f.data, secret.FileName)); err != nil {
		return t, err
	}
	own, err := filepath.Abs(filepath.Join(f.data, archiveDir))
	if err != nil {
		return t, err
	}
	t.archive = archive.Location{Scheme: "file", Dir: own}.String()
	server, err := natsd.Start(natsd.Config{Dir: filepath.Join(f.data, "nats"), Roles: bus.Roles(realm), Logf: func(format string, args ...any) {
		a.quietLogger().Warn("nats: " + fmt.Sprintf(format, args...))
	}})
	if errors.Is(err, natsd.ErrInUse) {
		return t, fmt.Errorf("%s is in use: end the process that uses it, then restore", f.data)
	}
	if err != nil {
		return t, err
	}
	t.nc, err = dial.Service(ctx, server.URL(), "coppice-restore", a.quietLogger(), server.Options(bus.RoleGraph)...)
	t.close = func() {
		if t.nc != nil {
			t.nc.Close()
		}
		_ = server.Shutdown()
	}
	return t, err
}

// restore restores a realm from an archive.
func (a *app) restore(ctx context.Context, realm string, f restoreFlags) (err error) {
	from, err := archive.ParseLocation(f.from)
	if err != nil {
		return wrong("%w", err)
	}
	t, err := a.restoreTarget(ctx, realm, f)
	if t.close != nil {
		defer t.close()
	}
	if err != nil {
		return err
	}
	if f.archive == "" {
		f.archive = t.archive
	}
	to, err := archive.ParseLocation(f.archive)
	if err != nil {
		return wrong("%w", err)
	}
	if err := origin.CheckNew(ctx, t.nc, realm); err != nil {
		return err
	}
	opener := stores.Opener{Replicas: f.replicas, JetStream: func(context.Context) (jetstream.JetStream, error) { return jetstream.New(t.nc) }}
	src, err := opener.Open(ctx, from)
	if err != nil {
		return err
	}
	id, err := realmIn(ctx, src, f.id)
	if err != nil {
		return err
	}
	dst, err := opener.Create(ctx, to)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "coppice-restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	archived := bootstrap.Archive{Store: src, Realm: id, Log: a.quietLogger()}
	return a.restoreIn(ctx, filepath.Join(dir, "state"), &archived, f.to, origin.Config{
		Conn: t.nc, Realm: realm, Replicas: f.replicas, Secrets: t.secrets, Archive: dst, By: instance(),
	})
}

// restoreIn restores a realm by way of a state in a directory that does not exist.
func (a *app) restoreIn(ctx context.Context, dir string, from *bootstrap.Archive, last uint64, c origin.Config) (err error) {
	log := a.quietLogger()
	folded, err := from.Fold(ctx, dir, last, state.Config{})
	if err != nil {
		return err
	}
	log.Log(ctx, slog.LevelDebug, "folded the archive", "snapshot", folded.Snapshot, "commit", folded.Sequence, "events", folded.Events)
	s, err := state.Open(dir, state.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	begun, err := origin.Begin(ctx, s, c)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "realm %s: restored %s at revision %d from %s, commit %d of realm id %x\n"+
		"its id is %x, and it is paused; its graph services need the archive %s\nlook at it, then run: coppice realm resume %s\n",
		c.Realm, console.Count(begun.Objects, "object"), begun.Revision, from.Store, begun.Origin.Sequence, begun.Origin.RealmID,
		begun.RealmID, c.Archive, c.Realm)
	return err
}

// realmIn returns the id of the realm to restore: the one that is named, or the only one of the
// archive.
func realmIn(ctx context.Context, store archive.Store, named string) (id [16]byte, err error) {
	var ids [][16]byte
	for e, err := range store.List(ctx, "") {
		if err != nil {
			return id, err
		}
		if n, ok := archive.ParseName(e.Name); ok && !slices.Contains(ids, n.Realm) {
			ids = append(ids, n.Realm)
		}
	}
	var texts []string
	for _, i := range ids {
		texts = append(texts, hex.EncodeToString(i[:]))
		if texts[len(texts)-1] == named {
			return i, nil
		}
	}
	switch {
	case len(ids) == 0:
		return id, fmt.Errorf("archive %s has no realm", store)
	case named != "":
		return id, fmt.Errorf("archive %s has no realm with the id %s; it has %s", store, named, strings.Join(texts, ", "))
	case len(ids) > 1:
		return id, wrong("archive %s has %d realms: name one with --id: %s", store, len(ids), strings.Join(texts, ", "))
	}
	return ids[0], nil
}
