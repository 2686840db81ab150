package recordings

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/realm"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/continuation"
	"github.com/coppice-gc/coppice/services/graph/recording"
	"github.com/coppice-gc/coppice/services/graph/state"
)

type replayFlags struct {
	realm.BeginFlags
	offline string
	realm   string
	whatIf  string
	output  string
}

// ReplayCommand returns the command `coppice replay`.
func ReplayCommand(a *cli.App) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:     "replay FILE",
		GroupID: "operate",
		Short:   "Replay a recorded log: into a realm, a directory, or under other settings",
		Long: `Replay a file that 'coppice record' has written, from its first commit to its last.

--realm NEW begins a realm that continues the log of the file: with the same objects,
uids, revisions and causes, and an id and a key of its own. It is paused until
'coppice realm resume NEW'. --data names the directory of 'coppice up', which must not
run. Otherwise connect to the NATS server as the user of the graph service, and give the
installation's secret and --archive. No graph service may serve the realm meanwhile; then
'coppice realm create NEW' has the running services serve it. --archive is the archive
that these graph services use: it gets the commits of the file, and the snapshot from which
they start. With --data it is the directory archive in it, unless --archive names another.

--offline DIR replays it into a directory, without a server. Then the commands that read
(get, describe, tree, explain, events, plan, verify) take --offline DIR. DIR has a copy of
the file.

--what-if SETTINGS replays it in memory, under the realm settings and kinds of a file in YAML
or JSON, which replace those of the log from its beginning. It prints the objects that
would have been deleted or kept differently, with the chain of causes in the log and under these
settings, and the events of users that no longer apply. The log has at most 1,000,000
events and 512 MiB.

The recording must begin with the first commit of its realm. It is checked by the
checksums that chain its commits, not by a key.`,
		Example: `  coppice replay shop.log --realm incident --data ./coppice-data
  coppice replay shop.log --what-if settings.yaml
  coppice replay shop.log --offline shop
  coppice get deployments -A --offline shop`,
		Args: cobra.ExactArgs(1),
	}
	f.Add(a, c)
	c.Flags().StringVar(&f.offline, "offline", "", "replay into this directory, which must be empty or not exist")
	c.Flags().StringVar(&f.whatIf, "what-if", "", "report what would be different under the realm settings and kinds in this file")
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatText, "text or json, with --what-if")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	c.Flags().StringVar(&f.realm, "realm", "", "create a realm with this name, which must not have a log yet")
	c.RunE = func(c *cobra.Command, args []string) error {
		return usable(func(ctx context.Context, args []string) error {
			if err := f.Check(c); err != nil {
				return cli.UsageErrorf("%w", err)
			}
			switch {
			case len(slices.DeleteFunc([]string{f.offline, f.realm, f.whatIf}, func(s string) bool { return s == "" })) != 1:
				return cli.UsageErrorf("write one of --realm NEW, --offline DIR and --what-if SETTINGS")
			case f.whatIf != "":
				return replayWhatIf(ctx, a, args[0], f)
			case f.offline != "":
				return replayOffline(ctx, a, args[0], f.offline)
			}
			return replayRealm(ctx, a, args[0], f)
		})(c, args)
	}
	return c
}

// replayBar returns the progress bar of a replay, and the function that moves it.
func replayBar(a *cli.App) (bar *terminal.Bar, progress func(sequence, last uint64)) {
	bar = a.Bar("replaying", "commit")
	at := uint64(0)
	return bar, func(sequence, last uint64) {
		bar.Total = int64(last)
		bar.Add(int64(sequence - at))
		at = sequence
	}
}

// replayRealm begins a realm that continues a recorded log.
func replayRealm(ctx context.Context, a *cli.App, file string, f replayFlags) (err error) {
	if err := bus.CheckRealm(f.realm); err != nil {
		return cli.UsageErrorf("%w", err)
	}
	r, err := openRecorded(a, file, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if f.Data == "" && f.Archive == "" {
		return cli.UsageErrorf("name the archive of the graph services that will serve the realm with --archive URL, or --data DIR of 'coppice up'")
	}
	t, err := f.Target(ctx, a, f.realm)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := continuation.CheckNew(ctx, t.Conn, f.realm); err != nil {
		return err
	}
	c, err := f.Config(ctx, t, f.realm, "")
	if err != nil {
		return err
	}
	dir, err := f.MkdirTemp("coppice-replay-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c.Temp = dir
	bar, progress := replayBar(a)
	_, begun, err := recording.Begin(ctx, r.File, r.size, dir, c, progress)
	bar.Clear()
	var elsewhere *recording.BeginError
	switch {
	case errors.As(err, &elsewhere):
		return err
	case err != nil:
		return unusable(file, err)
	}
	return realm.WriteBegun(a, begun, c, "replayed", file)
}

// replayOffline replays a recording into a directory.
func replayOffline(ctx context.Context, a *cli.App, file, dir string) error {
	start := a.Clock()
	r, err := openRecorded(a, file, "")
	if err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	bar, progress := replayBar(a)
	done, err := recording.Fold(ctx, file, dir, progress)
	bar.Clear()
	if errors.Is(err, state.ErrLocked) {
		return fmt.Errorf("another command replays into %s: %w", dir, err)
	}
	if err != nil {
		return unusable(file, err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s: replayed %s of %s in %s into %s, up to revision %d\n", file, terminal.Count(int(done.Events), "event"),
		terminal.Count(int(done.Commits), "commit"), a.Clock().Sub(start).Round(time.Millisecond), dir, done.Last.Revision)
	return err
}
