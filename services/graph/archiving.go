package graph

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

// archiverDir is the directory of the archiver's temporary files, next to the states. No realm
// has such a name.
const archiverDir = ".archiver"

// warnOther is the time after a warning from which on a failure of the archiver with another text is
// reported; one with the same text is reported after warnAgain. A request that took too long must not hide
// a lasting failure. The time doubles with each warning, because one cause can have many texts.
const warnOther = 10 * time.Second

// archivers are what the archivers of a process share.
type archivers struct {
	verifying *semaphore.Weighted // one place: see archiver.Config
	realms    func() []*realm

	mu       sync.Mutex
	measured time.Time
	changed  time.Time // when the sum of the realms' revisions was another one last
	sum      uint64
}

// The process counts as busy for quietAfter after a commit. It is measured at most once in busyAgain.
const (
	quietAfter = 2 * time.Second
	busyAgain  = 100 * time.Millisecond
)

// busy reports whether the process has folded commits in the last seconds.
func (a *archivers) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.measured) >= busyAgain {
		sum := uint64(0)
		for _, r := range a.realms() {
			if h := r.shown.Load(); h != nil {
				sum += h.Revision()
			}
		}
		if sum != a.sum {
			a.sum, a.changed = sum, now
		}
		a.measured = now
	}
	return now.Sub(a.changed) < quietAfter
}

// runArchiver archives the log of the realm until ctx ends. It returns at once if the process has no archive.
func (r *realm) runArchiver(ctx context.Context) {
	dir := filepath.Join(r.c.Dir, archiverDir, r.name)
	if r.archive == nil {
		_ = os.RemoveAll(dir) // of a process with an archive that was killed
		return
	}
	var warned, tooLarge time.Time
	said, other := "", warnOther // said in the last warning, and when another is due
	var done archiver.Progress
	archiver.New(archiver.Config{
		Realm: r.name, Store: r.archive, Log: r.events, State: r.state, Dir: dir,
		Instance: r.c.Instance, Limits: r.c.ArchiveLimits, Retention: r.archiveRetention, Now: r.time.Now, Logger: r.log, Failpoint: r.c.Failpoint,
		Acquire: func(ctx context.Context) (archiver.Lease, error) {
			return r.member.Acquire(ctx, r.name, lease.Options{Archiver: true})
		},
		Verifying: r.archivers.verifying, Busy: r.archivers.busy, Free: func(dir string) (uint64, error) {
			usage, err := r.c.Disk(dir)
			return usage.AvailBytes, err
		},
		TooLarge: func(bytes int64, keep lifecycle.Retention) {
			if time.Since(tooLarge) < warnAgain {
				return
			}
			tooLarge = time.Now()
			what := fmt.Sprintf("the archive has %s of the realm, and its retention is %s: the two newest verified snapshots and what follows them are kept, and segments of which the log has lost messages", humanize.IBytes(uint64(bytes)), keep)
			r.log.Warn(what)
			if id, err := uuid.FromBytes(r.state.Checkpoint().GetRealmId()); err == nil {
				r.warner.ArchiveTooLarge(uid.FromUUID(id), what)
			}
		},
		Writing: func() bool { return r.phase.Load().(phase) == phaseWriter },
		Progress: func(p archiver.Progress) {
			if p != done { // something was archived, and not just found in the archive
				done = p
				r.unarchived.Store(nil)
			}
			r.metrics.archived(p)
		},
		Failed: func(err error) {
			r.unarchived.Store(&archiveFailure{time.Now(), err})
			r.metrics.all.archiveFailures.WithLabelValues(r.name).Inc()
			r.log.Warn("cannot archive the log; trying again", "error", err)
			id, noID := uuid.FromBytes(r.state.Checkpoint().GetRealmId())
			since := time.Since(warned)
			if noID == nil && (since >= warnAgain || since >= other && err.Error() != said) {
				if other *= 2; since >= warnAgain {
					other = warnOther
				}
				warned, said = time.Now(), err.Error()
				r.warner.Unarchived(uid.FromUUID(id), "the log cannot be archived, and grows until it can; it is tried again: "+err.Error())
			}
		},
	}).Run(ctx)
}

// archiveRetention returns what bounds the archive of the realm.
func (r *realm) archiveRetention() lifecycle.Retention {
	if s := r.state.Settings(); s.HasArchiveRetention {
		return s.ArchiveRetention
	}
	return r.c.ArchiveRetention
}
