package backups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/realm"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/backup"
	"github.com/coppice-gc/coppice/services/graph/continuation"
	"github.com/coppice-gc/coppice/services/graph/registry"
)

type restoreFlags struct {
	realm.BeginFlags
	backup string
	output string
	dryRun bool
}

// RestoreCommand returns the command `coppice restore-backup`.
func RestoreCommand(a *cli.App) *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:     "restore-backup DIR|URL",
		GroupID: "operate",
		Short:   "Restore all realms of a backup, on an empty server",
		Long: `Restore all realms of a backup that 'coppice backup' has made, each at the commit that its
manifest names: with the same objects, uids, revisions and settings, and an id and a key of
its own. The realms are paused until 'coppice realm resume NAME'.

--data names the directory of 'coppice up', which must not run. Otherwise connect to the
NATS server as the user of the graph service, and give the installation's secret and --archive.
No graph service may run meanwhile.

--archive is the archive that the graph services will use: it gets the history, and the
snapshots from which they start. With --data it is the directory archive in it, unless --archive
names another. It is never the backup itself.

Everything that the realms need is read and checked before anything is written. If one of the
realms exists, nothing is changed. After a failure the same command continues: a realm that it
has restored before is left as it is. If that is so of all realms, the exit code is 1.`,
		Example: `  coppice restore-backup /backup/coppice --data ./restored
  coppice restore-backup /backup/coppice --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			err := f.Check(c)
			if err == nil {
				err = cli.CheckFormat(f.output, cli.TextFormats()...)
			}
			if err == nil && f.Data == "" && f.Archive == "" && !f.dryRun {
				err = errors.New("name the archive of the graph services that will serve the realms: --archive URL")
			}
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			return cli.WithCommand(c, runRestore(c.Context(), a, args[0], &f))
		},
	}
	f.Add(a, c)
	c.Flags().StringVar(&f.backup, "backup", "", "time or id of the backup to restore, as in the name of its manifest: see 'coppice archive ls' (default: the newest one)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "check the backup, and list what would be restored")
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatText, "text or json")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	return c
}

// restoring is a backup that is being restored.
type restoring struct {
	*cli.App
	f    *restoreFlags
	src  archive.Store
	b    archive.Backup
	done restored
}

// restored is what the command prints.
type restored struct {
	Backup  string        `json:"backup"`
	From    string        `json:"from"`
	Archive string        `json:"archive,omitempty"`
	DryRun  bool          `json:"dryRun,omitempty"`
	Realms  []realmResult `json:"realms"`
	// Before are the realms that an earlier run of the command has restored.
	Before []string `json:"before,omitempty"`
}

func runRestore(ctx context.Context, a *cli.App, place string, f *restoreFlags) error {
	from, err := location(place)
	if err != nil {
		return err
	}
	x := &restoring{App: a, f: f}
	if from.Scheme == "nats" && f.Data != "" {
		return cli.UsageErrorf("%s is in a NATS server, and --data starts another one: copy the backup to a directory with coppice archive copy, or restore it with --server", from)
	}
	if from.Scheme != "nats" { // then nothing is created if the backup cannot be restored
		if err := x.open(ctx, stores.Opener{}, from); err != nil {
			return err
		}
		if f.dryRun {
			return x.write()
		}
	}
	t, err := f.Target(ctx, a, bus.AnyRealm)
	if err != nil {
		return err
	}
	defer t.Close()
	if x.src == nil {
		if err := x.open(ctx, f.Opener(t), from); err != nil {
			return err
		}
		if f.dryRun {
			return x.write()
		}
	}
	return x.restore(ctx, t)
}

// open opens the backup, and checks it.
func (x *restoring) open(ctx context.Context, o stores.Opener, from archive.Location) (err error) {
	if x.src, err = o.Open(ctx, from); err != nil {
		return err
	}
	if x.b, err = backup.Find(ctx, x.src, x.f.backup); err != nil {
		return err
	}
	bar := x.Bar("checking", "")
	if bar.Total, err = backup.Size(ctx, x.src, &x.b); err == nil {
		err = backup.Check(ctx, x.src, &x.b, bar.Add)
	}
	bar.Clear()
	if err != nil {
		return fmt.Errorf("%s cannot be restored, and nothing is changed: %w; copy what is missing or damaged from another archive or backup with coppice archive copy (a damaged entry must be deleted before), or restore an earlier backup with --backup", x.b.Name(), err)
	}
	x.done = restored{Backup: x.b.Name(), From: x.src.String(), DryRun: x.f.dryRun, Realms: realmsOf(&x.b)}
	return nil
}

// restore restores the realms that no earlier run has restored.
func (x *restoring) restore(ctx context.Context, t realm.BeginTarget) (err error) {
	var missing []archive.BackupRealm
	for _, r := range x.b.Realms {
		o, exists, err := continuation.OriginOf(ctx, t.Conn, r.Name, t.Secrets)
		switch {
		case err != nil:
			return err
		case !exists:
			missing = append(missing, r)
		case o == lifecycle.Origin{RealmID: r.ID, Sequence: r.Sequence}:
			x.done.Before = append(x.done.Before, r.Name)
		default:
			return fmt.Errorf("realm %s: %w, which is not of this backup; nothing is changed: restore the backup on an empty server or into another directory, or single realms with coppice realm restore", r.Name, continuation.ErrExists)
		}
	}
	c, err := x.f.Config(ctx, t, "", "")
	if err != nil {
		return err
	}
	if samePlace(c.Archive.String(), x.src.String()) {
		return cli.UsageErrorf("%s is the backup: name another archive for the graph services with --archive", x.src)
	}
	x.done.Archive = c.Archive.String()
	js, err := jetstream.New(t.Conn)
	if err != nil {
		return err
	}
	list := registry.New(js, max(c.Replicas, 1))
	if err := x.listed(ctx, list); err != nil {
		return err
	}
	if err := x.history(ctx, c.Archive); err != nil {
		return err
	}
	for _, r := range missing {
		c.Realm = r.Name
		if err := x.restoreRealm(ctx, r, c); err != nil {
			return fmt.Errorf("realm %s: %w; the same command continues", r.Name, err)
		}
	}
	changed := len(missing) > 0
	for _, r := range x.b.Realms {
		_, err := list.Create(ctx, r.Name, "coppice-restore", "", x.Clock())
		var refused *lifecycle.Error
		if err != nil && (!errors.As(err, &refused) || refused.Reason != api.ErrAlreadyExists) {
			return fmt.Errorf("realm %s is restored, and is not in the list of realms yet; the same command continues: %w", r.Name, err)
		}
		changed = changed || err == nil
	}
	if err := x.write(); err != nil || changed {
		return err
	}
	return errors.New("all realms of the backup were restored here before, and nothing is changed: to restore them once more, choose another directory or another NATS server")
}

// listed returns an error if the list of realms has one of the realms as one that is being deleted.
func (x *restoring) listed(ctx context.Context, list *registry.Registry) error {
	l, err := list.List(ctx)
	if err != nil {
		return err
	}
	for _, r := range x.b.Realms {
		if l.Of(r.Name).GetState() == coppicev1.RealmState_REALM_STATE_DELETING {
			return fmt.Errorf("realm %s is being deleted; nothing is changed: start a graph service, which completes the deletion, and restore the backup then", r.Name)
		}
	}
	return nil
}

// history copies the history of the realms to the archive of the graph services.
func (x *restoring) history(ctx context.Context, to archive.Store) error {
	bar := x.Bar("copying", "")
	for e, err := range x.src.List(ctx, "") {
		if err != nil {
			return err
		}
		bar.Total += e.Size
	}
	done, err := backup.History(ctx, to, x.src, &x.b, bar.Add)
	bar.Clear()
	for _, p := range done.Problems {
		x.SayWarning(fmt.Sprintf("a part of the history is not copied: %s: %v", p.Name, p.Err))
	}
	if err != nil {
		return fmt.Errorf("%w; the same command continues", err)
	}
	return nil
}

// restoreRealm restores one realm.
func (x *restoring) restoreRealm(ctx context.Context, r archive.BackupRealm, c continuation.Config) (err error) {
	dir, err := x.f.MkdirTemp("coppice-restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c.Temp = dir
	from := &archivestate.Archive{Store: x.src, Realm: r.ID, Log: x.QuietLogger()}
	_, err = realm.Restore(ctx, x.App, filepath.Join(dir, "state"), from, realm.Until{Commit: r.Sequence, Revision: r.Revision}, c)
	return err
}

// write says what was restored.
func (x *restoring) write() error {
	if x.f.output == cli.FormatJSON {
		return x.WriteJSON(x.done)
	}
	verb := "restored"
	if x.done.DryRun {
		verb = "would be restored"
	}
	var text strings.Builder
	paused := 0
	for _, r := range x.done.Realms {
		if slices.Contains(x.done.Before, r.Name) {
			fmt.Fprintf(&text, "realm %s: was restored from this backup before, and is left as it is, with newer commits if it has any\n", r.Name)
			continue
		}
		paused++
		fmt.Fprintf(&text, "realm %s: %s at revision %d, commit %d of realm id %s%s\n", r.Name, verb, r.Revision, r.Commit, r.ID, pausedText(r))
	}
	fmt.Fprintf(&text, "%s of %s, made at %s\n", x.done.Backup, x.src, x.b.At.UTC().Format("2006-01-02 15:04:05 UTC"))
	if !x.done.DryRun && paused > 0 {
		fmt.Fprintf(&text, "%s paused; the graph services need the archive %s\nstart them, look at the realms, then run, for those that were not paused before:\n", terminal.Count(paused, "realm"), x.done.Archive)
		for _, r := range x.done.Realms {
			if !r.Paused && !slices.Contains(x.done.Before, r.Name) {
				fmt.Fprintf(&text, "  coppice realm resume %s\n", r.Name)
			}
		}
	}
	_, err := x.Stdout.Write([]byte(text.String()))
	return err
}
