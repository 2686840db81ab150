// Package backup copies the archive of an installation to a backup, and checks a backup before it is restored.
//
//	archive   segments, snapshots  ──Take──►  backup   segments, snapshots
//	                                                   manifest (archive.Backup), which is put last
//
// A manifest names a commit of each realm. It is put when everything is there that restores each realm at this commit. So a backup
// that was interrupted has no manifest, and what it has copied serves the next one.
package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
)

// passes is how often Take lists the archive: a graph service may delete entries which it has merged or which are beyond the
// retention while they are copied.
const passes = 5

// Source is an archive of graph services, with the realms that they archive there.
type Source struct {
	Store  archive.Store
	Realms []archive.BackupRealm
}

// Take copies the archives of the realms of a backup to dst, reads back what restores them, and stores the manifest if all of it is there. progress is called with the
// bytes that are done since its last call.
func Take(ctx context.Context, dst archive.Store, sources []Source, b archive.Backup, progress func(bytes int64)) (done archive.Copied, err error) {
	for _, s := range sources {
		c, err := copyFrom(ctx, dst, s, progress)
		done.Copied, done.Bytes, done.Present, done.Others = done.Copied+c.Copied, done.Bytes+c.Bytes, done.Present+c.Present, done.Others+c.Others
		done.Problems = append(done.Problems, c.Problems...)
		if err != nil {
			return done, fmt.Errorf("%w; there is no backup yet, and the same command continues", err)
		}
	}
	// Entries that dst had already were not read yet, and what was copied may have been stored wrongly.
	if err := Check(ctx, dst, &b, func(int64) {}); err != nil {
		return done, fmt.Errorf("there is no backup, since it could not be restored: %w; delete a damaged entry, and the same command copies it again", err)
	}
	if err := archive.PutBackup(ctx, dst, b); err != nil {
		return done, fmt.Errorf("the manifest is not stored, so there is no backup yet; the same command continues: %w", err)
	}
	return done, nil
}

// copyFrom copies the entries of an archive that dst does not have, and returns an error unless dst then has everything that restores the
// realms. What was left out without harm to that is in Copied.Problems. After a failure call it again: it continues.
func copyFrom(ctx context.Context, dst archive.Store, from Source, progress func(bytes int64)) (done archive.Copied, err error) {
	src, realms := from.Store, from.Realms
	for _, r := range realms {
		if err := of(src, r).Has(ctx, r.Sequence); err != nil {
			return done, fmt.Errorf("realm %s: its graph service has archived commit %d, and the archive that is read does not have it: it may be another archive; name the one of the graph service with --archive URL: %w", r.Name, r.Sequence, err)
		}
	}
	for pass := range passes {
		entries, err := list(ctx, src)
		if err != nil {
			return done, err
		}
		copied, err := archive.Copy(ctx, dst, src, entries, snapshot.CheckEntry, progress)
		done.Copied, done.Bytes, done.Problems = done.Copied+copied.Copied, done.Bytes+copied.Bytes, copied.Problems
		if pass == 0 {
			done.Present, done.Others = copied.Present, copied.Others
		}
		if err != nil {
			return done, err
		}
		if !slices.ContainsFunc(copied.Problems, func(p archive.Problem) bool { return p.Kind == archive.ProblemGone }) {
			break
		}
	}
	for _, r := range realms {
		needed, err := of(dst, r).Needs(ctx, r.Sequence)
		if err != nil {
			return done, fmt.Errorf("realm %s: %w", r.Name, err)
		}
		for _, e := range needed {
			for _, p := range done.Problems {
				if p.Name == e.Name {
					return done, fmt.Errorf("realm %s cannot be restored without this entry: %s: %w", r.Name, p.Name, p.Err)
				}
			}
		}
	}
	return done, nil
}

// list returns the entries of an archive, without manifests of backups.
func list(ctx context.Context, store archive.Store) (entries []archive.Entry, err error) {
	for e, err := range store.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if !archive.IsBackup(e.Name) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// of returns the part of an archive that belongs to a realm.
func of(store archive.Store, r archive.BackupRealm) *archivestate.Archive {
	return &archivestate.Archive{Store: store, Realm: r.ID, Log: slog.New(slog.DiscardHandler)}
}

// Find returns a manifest: the newest one, or the one with a name, an id, or a time as they are in its name.
func Find(ctx context.Context, store archive.Store, which string) (b archive.Backup, err error) {
	entries, err := archive.Backups(ctx, store)
	if err != nil {
		return b, err
	}
	if len(entries) == 0 {
		return b, fmt.Errorf("archive %s has no backup that was completed: run coppice backup again, or restore single realms with coppice realm restore", store)
	}
	if which == "" {
		return archive.ReadBackup(ctx, store, entries[len(entries)-1])
	}
	var names []string
	for _, e := range slices.Backward(entries) {
		name := strings.TrimPrefix(e.Name, "backup/")
		if time, id, _ := strings.Cut(name, "-"); which == e.Name || which == name || which == id || which == time {
			return archive.ReadBackup(ctx, store, e)
		}
		names = append(names, name)
	}
	const most = 10
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" and %d older ones", n)
	}
	return b, fmt.Errorf("archive %s has no backup %s; it has %s%s", store, which, strings.Join(names, ", "), more)
}

// Size returns the size of the entries that Check reads.
func Size(ctx context.Context, store archive.Store, b *archive.Backup) (bytes int64, err error) {
	for _, r := range b.Realms {
		entries, err := of(store, r).Needs(ctx, r.Sequence)
		if err != nil {
			return 0, fmt.Errorf("realm %s: %w", r.Name, err)
		}
		for _, e := range entries {
			bytes += e.Size
		}
	}
	return bytes, nil
}

// Check reads the entries with which the realms of a backup are restored, and returns an error if one is missing or
// damaged. The error names each.
func Check(ctx context.Context, store archive.Store, b *archive.Backup, progress func(bytes int64)) error {
	var failed []error
	for _, r := range b.Realms {
		entries, err := of(store, r).Needs(ctx, r.Sequence)
		if err != nil {
			failed = append(failed, fmt.Errorf("realm %s: %w", r.Name, err))
			continue
		}
		slices.SortFunc(entries, func(a, b archive.Entry) int { return strings.Compare(a.Name, b.Name) })
		reports, err := archive.Verify(ctx, store, entries, snapshot.CheckEntry, progress)
		if err != nil {
			return fmt.Errorf("realm %s: %w", r.Name, err)
		}
		for _, report := range reports {
			for _, p := range report.Problems {
				failed = append(failed, fmt.Errorf("realm %s: archive %s: %s: %w", r.Name, store, p.Name, p.Err))
			}
		}
	}
	return errors.Join(failed...)
}

// History copies the history of the realms of a backup up to its commits, and what else the backup has of realms that are not in its
// manifest, to the archive of the restored realms.
func History(ctx context.Context, dst, src archive.Store, b *archive.Backup, progress func(bytes int64)) (archive.Copied, error) {
	all, err := list(ctx, src)
	if err != nil {
		return archive.Copied{}, err
	}
	entries := slices.DeleteFunc(all, func(e archive.Entry) bool {
		name, ok := archive.ParseName(e.Name)
		return slices.ContainsFunc(b.Realms, func(r archive.BackupRealm) bool {
			return ok && r.ID == name.Realm && name.First > r.Sequence
		})
	})
	return archive.Copy(ctx, dst, src, entries, snapshot.CheckEntry, progress)
}
