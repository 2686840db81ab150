package graph

import (
	"context"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

// archiverDir is the directory of the archiver's temporary files, next to the states. No realm
// has such a name.
const archiverDir = ".archiver"

// runArchiver archives the log of the realm until ctx ends. It returns at once if the process has no archive.
func (r *realm) runArchiver(ctx context.Context) {
	if r.archive == nil {
		return
	}
	var warned time.Time
	archiver.New(archiver.Config{
		Realm: r.name, Store: r.archive, Log: r.events, State: r.state, Dir: filepath.Join(r.c.Dir, archiverDir, r.name),
		Instance: r.c.Instance, Limits: r.c.ArchiveLimits, Now: r.time.Now, Logger: r.log,
		Acquire: func(ctx context.Context) (archiver.Lease, error) {
			return r.member.Acquire(ctx, r.name, lease.Options{Archiver: true})
		},
		Writing: func() bool { return r.phase.Load().(phase) == phaseWriter },
		Progress: func(p archiver.Progress) {
			r.metrics.archived(p.Segments, p.Snapshot)
		},
		Failed: func(err error) {
			r.metrics.all.archiveFailures.WithLabelValues(r.name).Inc()
			r.log.Warn("cannot archive the log; trying again", "error", err)
			id, noID := uuid.FromBytes(r.state.Checkpoint().GetRealmId())
			if noID == nil && time.Since(warned) >= warnAgain {
				warned = time.Now()
				r.warner.Unarchived(uid.FromUUID(id), "the log cannot be archived, and is tried again: "+err.Error())
			}
		},
	}).Run(ctx)
}
