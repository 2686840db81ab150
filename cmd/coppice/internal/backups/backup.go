package backups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/backup"
)

// reportAfter is the time after which the command says which realm it waits for.
const reportAfter = 5 * time.Second

type backupFlags struct {
	archive string
	output  string
	version string // of this program
}

// BackupCommand returns the command `coppice backup`. version is that of the program.
func BackupCommand(a *cli.App, version string) *cobra.Command {
	f := backupFlags{version: version}
	c := &cobra.Command{
		Use:     "backup DIR|URL",
		GroupID: "operate",
		Short:   "Back up all realms, from their archive",
		Long: `Back up all realms of an installation to a directory, or to the URL of an archive: file:///dir,
nats://bucket or s3://bucket/prefix?endpoint=URL. Realms that are paused are included; one that is
being deleted is not, and is named.

The graph services put what was committed so far into their archive. The command then copies the
entries of the archive that the backup does not have, and verifies each. Finally, it stores a
manifest, with the name, the realm id and the last commit of each realm. Without it there is no
backup: after a failure an earlier backup in the same place stays as it is, and the same command
continues. A second backup to the same place copies what is new.

Connect as an operator. The archive must be readable here: where it is mounted in another
place, name that with --archive. An archive in a NATS object store needs the user admin.

The secret of the installation is not in the backup. To restore a backup, run
'coppice restore-backup'.`,
		Example: `  coppice backup /backup/coppice
  coppice backup 's3://backup/coppice?endpoint=https://s3.example.com' --archive file:///mnt/archive`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := cli.CheckFormat(f.output, cli.TextFormats()...); err != nil {
				return cli.NewUsageError(c, err)
			}
			return cli.WithCommand(c, runBackup(c.Context(), a, args[0], f))
		},
	}
	a.Dial.Flags(c.Flags()) // without --realm: all realms are backed up
	a.ActorFlag(c)
	c.Flags().StringVar(&f.archive, "archive", "", "URL of the archive of the graph services as it can be read here (default: as they name it)")
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatText, "text or json")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	return c
}

// location parses the place of a backup: a directory or a URL.
func location(text string) (archive.Location, error) {
	parse := archive.ParseLocation
	if !strings.Contains(text, "://") {
		parse = archive.InDirectory
	}
	l, err := parse(text)
	if err != nil {
		return l, cli.UsageErrorf("%w", err)
	}
	return l, nil
}

// samePlace reports whether two URLs are of one archive. Directories may have several names.
func samePlace(a, b string) bool {
	if a == b {
		return true
	}
	var found [2]os.FileInfo
	for i, url := range []string{a, b} {
		l, err := archive.ParseLocation(url)
		if err != nil || l.Scheme != "file" {
			return false
		}
		if found[i], err = os.Stat(l.Dir); err != nil {
			return false
		}
	}
	return os.SameFile(found[0], found[1])
}

// taking is a backup that is being made.
type taking struct {
	*cli.Session
	f       backupFlags
	stores  stores.Opener
	result  result
	sources map[string][]archive.BackupRealm // by the URL of the archive
	done    archive.Copied
}

func runBackup(ctx context.Context, a *cli.App, place string, f backupFlags) error {
	to, err := location(place)
	if err != nil {
		return err
	}
	if f.archive != "" {
		if _, err := location(f.archive); err != nil {
			return err
		}
	}
	session, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer session.Conn.Close()
	t := &taking{Session: session, f: f, sources: map[string][]archive.BackupRealm{}, stores: stores.Opener{
		JetStream: func(context.Context) (jetstream.JetStream, error) { return jetstream.New(session.Conn) },
	}}
	b := archive.NewBackup(a.Clock(), cli.Instance(), f.version)
	if err := t.archiveRealms(ctx, &b); err != nil {
		return err
	}
	dst, err := t.take(ctx, to, b)
	if err != nil {
		return err
	}
	if err := t.write(dst, &b); err != nil {
		return err
	}
	if n := len(t.done.Problems); n > 0 {
		return fmt.Errorf("%s of the history not backed up; the realms can be restored from the backup; run coppice archive verify on the archive, which says what to do", terminal.Count(n, "entry"))
	}
	return nil
}

// archiveRealms has the log of each realm archived, and adds it to the manifest.
func (t *taking) archiveRealms(ctx context.Context, b *archive.Backup) error {
	realms, err := t.Client.Operations().ListRealms(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, r := range realms {
		switch r.GetState() {
		case coppicev1.RealmState_REALM_STATE_ACTIVE:
			if err := t.archiveRealm(ctx, b, r.GetName()); err != nil {
				failed = append(failed, err)
			}
		case coppicev1.RealmState_REALM_STATE_DELETING:
			t.result.Deleting = append(t.result.Deleting, r.GetName())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(failed) == 0 && len(b.Realms) == 0 {
		return errors.New("there is no realm to back up")
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("there is no backup without these realms: %w", err)
	}
	return nil
}

func (t *taking) archiveRealm(ctx context.Context, b *archive.Backup, name string) error {
	c := client.New(t.Conn, client.WithRealm(name), client.WithActor(t.Dial.Actor), client.WithTimeout(t.Dial.Timeout), client.WithRetryTimeout(t.Dial.Timeout), client.WithTracerProvider(t.Traces))
	began, said := t.Clock(), false
	done, err := c.Operations().Archive(ctx, client.OnProgress(func(_, last uint64) {
		if !said && t.Clock().Sub(began) >= reportAfter {
			said = true
			t.Say(fmt.Sprintf("realm %s: waiting until the graph service has archived commit %d", name, last))
		}
	}))
	if err != nil {
		return fmt.Errorf("realm %s: %w", name, err)
	}
	r := archive.BackupRealm{Name: name, Sequence: done.GetSequence(), Revision: done.GetRevision(), Paused: done.GetPaused()}
	copy(r.ID[:], done.GetRealmId())
	b.Realms = append(b.Realms, r)
	t.sources[done.GetArchive()] = append(t.sources[done.GetArchive()], r)
	return nil
}

// take copies the archives of the realms, and stores the manifest.
func (t *taking) take(ctx context.Context, to archive.Location, b archive.Backup) (archive.Store, error) {
	if t.f.archive != "" {
		t.sources = map[string][]archive.BackupRealm{t.f.archive: b.Realms}
	}
	bar := t.Bar("copying", "")
	defer bar.Clear()
	var sources []backup.Source
	for url, realms := range t.sources {
		src, err := t.open(ctx, url)
		if err != nil {
			return nil, err
		}
		if samePlace(src.String(), to.String()) {
			return nil, cli.UsageErrorf("%s is the archive of the graph services: a backup is another place", src)
		}
		for e, err := range src.List(ctx, "") {
			if err != nil {
				return nil, err
			}
			bar.Total += e.Size
		}
		sources = append(sources, backup.Source{Store: src, Realms: realms})
	}
	dst, err := t.stores.Create(ctx, to)
	if err != nil {
		return nil, err
	}
	t.done, err = backup.Take(ctx, dst, sources, b, bar.Add)
	bar.Clear()
	for _, p := range t.done.Problems {
		t.SayWarning(fmt.Sprintf("%s: %v", p.Name, p.Err))
	}
	return dst, err
}

// open opens an archive of the graph services.
func (t *taking) open(ctx context.Context, url string) (archive.Store, error) {
	l, err := location(url)
	if err != nil {
		return nil, err
	}
	if l.Scheme == "file" && t.f.archive == "" {
		if _, err := os.Stat(l.Dir); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("the graph services have their archive in %s, and this machine has no such directory: run the command where it is, or mount it here and name it with --archive URL", url)
		}
	}
	return t.stores.Open(ctx, l)
}

// result is what the command prints.
type result struct {
	Backup   string        `json:"backup"`
	Time     time.Time     `json:"time"`
	Archive  string        `json:"archive"`
	Realms   []realmResult `json:"realms"`
	Deleting []string      `json:"deleting,omitempty"`
	Copied   int           `json:"copied"`
	Bytes    int64         `json:"bytes"`
	Present  int           `json:"present"`
}

type realmResult struct {
	Name     string `json:"name"`
	ID       string `json:"id"`
	Commit   uint64 `json:"commit"`
	Revision uint64 `json:"revision"`
	Paused   bool   `json:"paused,omitempty"`
}

// realmsOf are the realms of a manifest.
func realmsOf(b *archive.Backup) (list []realmResult) {
	for _, r := range b.Realms {
		list = append(list, realmResult{r.Name, fmt.Sprintf("%x", r.ID), r.Sequence, r.Revision, r.Paused})
	}
	slices.SortFunc(list, func(a, b realmResult) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// write says what was backed up.
func (t *taking) write(dst archive.Store, b *archive.Backup) error {
	r := &t.result
	r.Backup, r.Time, r.Archive, r.Realms = b.Name(), b.At, dst.String(), realmsOf(b)
	r.Copied, r.Bytes, r.Present = t.done.Copied, t.done.Bytes, t.done.Present
	if t.f.output == cli.FormatJSON {
		return t.WriteJSON(r)
	}
	var text strings.Builder
	for _, realm := range r.Realms {
		fmt.Fprintf(&text, "realm %s: revision %d, commit %d of realm id %s%s\n", realm.Name, realm.Revision, realm.Commit, realm.ID, pausedText(realm))
	}
	for _, name := range r.Deleting {
		fmt.Fprintf(&text, "realm %s is being deleted, and is not in the backup\n", name)
	}
	fmt.Fprintf(&text, "%s of %s in %s: %s copied, %s; %d were there already\n", r.Backup, terminal.Count(len(r.Realms), "realm"), dst, terminal.Count(r.Copied, "entry"), terminal.Bytes(r.Bytes), r.Present)
	text.WriteString("the secret of the installation is not in the backup: keep a copy of its file in another place\n")
	_, err := t.Stdout.Write([]byte(text.String()))
	return err
}

func pausedText(r realmResult) string {
	if r.Paused {
		return ", paused"
	}
	return ""
}
