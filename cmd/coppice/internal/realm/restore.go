package realm

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

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/continuation"
	"github.com/coppice-gc/coppice/services/graph/state"
)

type restoreFlags struct {
	BeginFlags
	from string
	id   string
	to   uint64
}

func restoreCommand(a *cli.App) *cobra.Command {
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
				return cli.NewUsageError(c, err)
			}
			if f.from == "" {
				return cli.NewUsageError(c, errors.New("no archive is named: write --from URL"))
			}
			if c.Flags().Changed("to") && f.to == 0 {
				return cli.NewUsageError(c, errors.New("--to 0: commits are numbered from 1 on; without --to the last one is restored"))
			}
			if err := f.Check(c); err != nil {
				return cli.NewUsageError(c, err)
			}
			return cli.WithCommand(c, restoreRealm(c.Context(), a, args[0], f))
		},
	}
	f.Add(a, c)
	c.Flags().StringVar(&f.from, "from", "", "URL of the archive from which to restore: file:///dir, nats://bucket or s3://bucket/prefix?endpoint=URL")
	c.Flags().StringVar(&f.id, "id", "", "id of the realm to restore, if the archive has several: see 'coppice archive ls'")
	c.Flags().Uint64Var(&f.to, "to", 0, "last commit to restore (default: the last one of the archive)")
	return c
}

// restoreRealm restores a realm from an archive.
func restoreRealm(ctx context.Context, a *cli.App, realm string, f restoreFlags) (err error) {
	from, err := archive.ParseLocation(f.from)
	if err != nil {
		return cli.UsageErrorf("%w", err)
	}
	var archived *archivestate.Archive
	if from.Scheme != "nats" { // then nothing is created if the archive cannot be restored
		if archived, err = f.restorable(ctx, a, stores.Opener{}, from); err != nil {
			return err
		}
	}
	t, err := f.Target(ctx, a, realm)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := continuation.CheckNew(ctx, t.Conn, realm); err != nil {
		return err
	}
	if archived == nil {
		if archived, err = f.restorable(ctx, a, f.Opener(t), from); err != nil {
			return err
		}
	}
	c, err := f.Config(ctx, t, realm, f.from)
	if err != nil {
		return err
	}
	dir, err := f.MkdirTemp("coppice-restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c.Temp = dir
	begun, err := Restore(ctx, a, filepath.Join(dir, "state"), archived, Until{Commit: f.to}, c)
	if err != nil {
		return err
	}
	return WriteBegun(a, begun, c, "restored", archived.Store.String())
}

// restorable returns the part of an archive that belongs to the realm to restore. The error says which commits it lacks.
func (f *restoreFlags) restorable(ctx context.Context, a *cli.App, o stores.Opener, from archive.Location) (*archivestate.Archive, error) {
	src, err := o.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	id, err := realmIn(ctx, src, f.id)
	if err != nil {
		return nil, err
	}
	archived := &archivestate.Archive{Store: src, Realm: id, Log: a.QuietLogger()}
	return archived, archived.Has(ctx, f.to)
}

// Until is the last commit to restore.
type Until struct {
	Commit   uint64 // 0 for the last one of the archive
	Revision uint64 // after this commit; 0 if it is not known
}

// Restore restores a realm by way of a state in a directory that does not exist.
func Restore(ctx context.Context, a *cli.App, dir string, from *archivestate.Archive, until Until, c continuation.Config) (begun continuation.Begun, err error) {
	log := a.QuietLogger()
	folded, err := from.Fold(ctx, dir, until.Commit, state.Config{})
	if archive.IsDamagedSegment(err) {
		return begun, fmt.Errorf("%w; replace the segment by one of another archive (coppice archive copy), or restore up to a commit before it with --to", err)
	}
	if err != nil {
		return begun, err
	}
	if until.Revision > 0 && folded.Revision != until.Revision {
		return begun, fmt.Errorf("archive %s has revision %d at commit %d, where it should have revision %d: it has another history of the realm", from.Store, folded.Revision, folded.Sequence, until.Revision)
	}
	log.Log(ctx, slog.LevelDebug, "folded the archive", "snapshot", folded.Snapshot, "commit", folded.Sequence, "events", folded.Events)
	s, err := state.Open(dir, state.Config{})
	if err != nil {
		return begun, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return continuation.Begin(ctx, s, c)
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
		return id, cli.UsageErrorf("archive %s has %d realms: name one with --id: %s", store, len(ids), strings.Join(texts, ", "))
	}
	return ids[0], nil
}
