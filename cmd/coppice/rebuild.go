package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
)

type rebuildFlags struct {
	data, state string
	realm       string
}

func rebuildCommand(a *cli.App) *cobra.Command {
	var f rebuildFlags
	c := &cobra.Command{
		Use:     "rebuild",
		GroupID: "operate",
		Short:   "Rebuild a realm's state from its log, while no graph service runs",
		Long: `Replay the event log of a realm, and replace the state that a graph service has of
it. If the log cannot be read to its end, the state stays as it is. The log is not
changed.

--data names the directory of 'coppice up', which also has the log; commits that the log
lacks are read from the archive in it. --state names the directory of a graph service
('coppice graph --data'): its state is renamed, and the service replays the log at
its next start.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if (f.data == "") == (f.state == "") {
				return cli.NewUsageError(c, errors.New("no state is named: write --data DIR of 'coppice up', or --state DIR of 'coppice graph'"))
			}
			if err := bus.CheckRealm(f.realm); err != nil {
				return err
			}
			if f.data != "" {
				return rebuild(c.Context(), a, f)
			}
			return setAside(a, f.state, f.realm)
		},
	}
	c.Flags().StringVar(&f.data, "data", "", "directory of all data, of 'coppice up'")
	c.Flags().StringVar(&f.state, "state", "", "directory of states, of 'coppice graph'")
	c.Flags().StringVar(&f.realm, "realm", bus.DefaultRealm, "realm")
	return c
}

// rebuild replays the log that the embedded server has in a directory of `up`.
func rebuild(ctx context.Context, a *cli.App, f rebuildFlags) error {
	nats, states := filepath.Join(f.data, "nats"), filepath.Join(f.data, "graph")
	if !isDir(nats) {
		return setAside(a, states, f.realm)
	}
	server, err := natsd.Start(natsd.Config{Dir: nats, Roles: bus.Roles(f.realm), Logf: func(format string, args ...any) {
		a.QuietLogger().Warn("nats: " + fmt.Sprintf(format, args...))
	}})
	if errors.Is(err, natsd.ErrInUse) {
		return running(a, f.data)
	}
	if err != nil {
		return err
	}
	defer func() { _ = server.Shutdown() }()
	nc, err := dial.Service(ctx, server.URL(), "coppice-rebuild", a.QuietLogger(), server.Options(bus.RoleGraph)...)
	if err != nil {
		return err
	}
	defer nc.Close()
	secrets, err := secret.Load(filepath.Join(f.data, secret.FileName))
	if err != nil {
		return err
	}
	start := a.Clock()
	done, err := replay.Rebuild(ctx, nc, f.realm, states, secrets)
	var cut *replay.CutError
	var broken *eventlog.BrokenError
	var lost *replay.MismatchError
	if (errors.As(err, &cut) || errors.As(err, &broken) || errors.As(err, &lost)) && isDir(filepath.Join(f.data, cli.ArchiveDir)) {
		done, err = rebuildFrom(ctx, a, nc, f, secrets)
	}
	if errors.Is(err, state.ErrLocked) {
		return running(a, states)
	}
	if errors.As(err, &cut) {
		return fmt.Errorf("realm %s: the log does not have its first commits any more, and %s has no archive with the commits before it: if the archive is elsewhere, "+
			"run 'coppice rebuild --state %s --realm %s' and then 'coppice up' with that --archive, which begins with a snapshot of it", f.realm, f.data, states, f.realm)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "realm %s: replayed %s of %s in %s, to revision %d\n", f.realm,
		terminal.Count(int(done.Events), "event"), terminal.Count(int(done.Commits), "commit"), a.Clock().Sub(start).Round(time.Millisecond), done.Revision)
	return err
}

// rebuildFrom is rebuild with the archive of `up`, for a log that was cut.
func rebuildFrom(ctx context.Context, a *cli.App, nc *nats.Conn, f rebuildFlags, secrets secret.Secrets) (r replay.Rebuilt, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return r, err
	}
	log, err := eventlog.OpenExisting(ctx, js, f.realm, eventlog.NewKeys(secrets, f.realm))
	if err != nil {
		return r, err
	}
	location, err := archive.InDirectory(filepath.Join(f.data, cli.ArchiveDir))
	if err != nil {
		return r, err
	}
	store, err := stores.Opener{}.Open(ctx, location)
	if err != nil {
		return r, err
	}
	return archivestate.Rebuild(ctx, log, store, filepath.Join(f.data, "graph"), a.QuietLogger())
}

// setAside sets a state whose log is elsewhere aside: a replay of a damaged log may fail.
func setAside(a *cli.App, states, realm string) error {
	dir := filepath.Join(states, realm)
	if !isDir(dir) {
		return fmt.Errorf("there is no state of realm %s in %s", realm, states)
	}
	err := state.CheckUnlocked(dir)
	if errors.Is(err, state.ErrLocked) {
		return running(a, states)
	}
	if err != nil {
		return err
	}
	to := filepath.Join(states, fmt.Sprintf(".before-rebuild-%s-%s", realm, a.Clock().UTC().Format("20060102T150405Z")))
	if err := os.Rename(dir, to); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "realm %s: the state is now in %s; the next start of the graph service replays the log; then delete the old state\n", realm, to)
	return err
}

func running(_ *cli.App, dir string) error {
	return fmt.Errorf("%s is in use: end the process that uses it, then rebuild", dir)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
