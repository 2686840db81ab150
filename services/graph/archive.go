package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// archiverDir is the directory of the archiver's temporary files, next to the states. No realm
// has such a name.
const archiverDir = ".archiver"

// warnOther is the time after a warning from which on a failure of the archive with another text is
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

// archiveWarnings says when to warn of a failure of the archive. It is safe for concurrent use.
type archiveWarnings struct {
	mu    sync.Mutex
	last  time.Time
	said  string        // in the last warning
	other time.Duration // after which a failure with another text is reported
}

// due reports whether a failure is to be reported now.
func (w *archiveWarnings) due(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := time.Since(w.last)
	if since < warnAgain && (since < w.other || err.Error() == w.said) {
		return false
	}
	if w.other *= 2; since >= warnAgain {
		w.other = warnOther
	}
	w.last, w.said = time.Now(), err.Error()
	return true
}

// archiveFailed counts a failure of the archive, logs it, and publishes a warning if one is due.
func (r *realm) archiveFailed(id [16]byte, what string, err error) {
	r.metrics.all.archiveFailures.WithLabelValues(r.name).Inc()
	r.log.Warn(what, "error", err)
	if id != [16]byte{} && r.archiveWarnings.due(err) {
		r.warner.Unarchived(uid.FromUUID(id), what+": "+err.Error())
	}
}

// awaitArchive calls do, which reads the archive, until it succeeds or fails with an error that waiting does not
// cure. It waits for an archive that hangs, and for one in NATS.
func (r *withLog) awaitArchive(ctx context.Context, do func(context.Context) error) error {
	defer r.waits.Store(nil)
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		err := do(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil, errors.Is(err, archivestate.ErrNoSnapshot), errors.Is(err, state.ErrLocked), outOfSpace(err): // the archive has answered
			return err
		}
		id, failed := r.wholeLog.RealmID(ctx)
		if failed != nil {
			return errors.Join(err, failed)
		}
		r.archiveFailed(id, "the realm cannot go on without its archive; it is tried again", err)
		if !errors.Is(err, archive.ErrStalled) && !bus.IsNotReady(err) {
			return err
		}
		r.waits.Store(&err)
		if err := poll.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// unusableEntries are the entries of an archive that were passed over, by name.
type unusableEntries map[string]unusableEntry

type unusableEntry struct {
	at  time.Time // when it was reported
	err error
}

// maxUnusable is the maximum number of entries that one warning names, and maxUnusableText that of bytes that it says
// of one.
const (
	maxUnusable     = 10
	maxUnusableText = 1 << 10
)

// damagedEntry counts an entry of the archive that is passed over, logs it, and publishes a warning, unless that was done lately.
// It is safe for concurrent use.
func (r *withLog) damagedEntry(name string, err error) {
	r.passedMu.Lock()
	if r.passed == nil {
		r.passed = unusableEntries{}
	}
	message, due := r.passed.add(name, err)
	r.passedMu.Unlock()
	if !due {
		return
	}
	r.metrics.all.archiveFailures.WithLabelValues(r.name).Inc()
	r.log.Warn("an entry of the archive cannot be used, and is passed over", "entry", name, "error", err)
	if id := realmID(r.state.Checkpoint()); id != [16]byte{} {
		r.warner.ArchiveDamaged(uid.FromUUID(id), message)
	}
}

// unreadableSegment is damagedEntry for a segment that a client has come to.
func (r *withLog) unreadableSegment(name string, err error) {
	var version *segment.VersionError
	if !errors.As(err, &version) {
		err = fmt.Errorf("%w; its commits cannot be read before it is replaced: if another archive has it, or the stream of the log still has its commits, delete it, and copy it from another archive (coppice archive copy), or let it be archived again", err)
	}
	r.damagedEntry(name, err)
}

// add records that an entry cannot be used, and reports whether that is to be reported now. The message names first this
// entry, and then the others that were reported lately, because a warning replaces the one before.
func (u unusableEntries) add(name string, err error) (message string, due bool) {
	maps.DeleteFunc(u, func(_ string, e unusableEntry) bool { return time.Since(e.at) >= warnAgain })
	if _, ok := u[name]; ok {
		return "", false
	}
	names := append([]string{name}, slices.Sorted(maps.Keys(u))...)
	u[name] = unusableEntry{time.Now(), err}
	message = "entries of the archive cannot be used, and are passed over"
	for _, name := range names[:min(len(names), maxUnusable)] {
		text := u[name].err.Error()
		if most := maxUnusableText / 2; len(text) > maxUnusableText { // both ends matter: what is wrong, and what to do
			text = strings.ToValidUTF8(text[:most]+" ... "+text[len(text)-most:], "")
		}
		message += fmt.Sprintf("; %s: %s", name, text)
	}
	if more := len(names) - maxUnusable; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return message, true
}

// runArchiver archives the log of the realm until ctx ends. It returns at once if the process has no archive.
func (r *following) runArchiver(ctx context.Context) {
	if r.archiver == nil {
		_ = os.RemoveAll(r.archiverDir()) // of a process with an archive that was killed
		return
	}
	r.archiver.Run(ctx)
}

// archiverDir returns the directory of the archiver's temporary files.
func (r *following) archiverDir() string { return filepath.Join(r.c.Dir, archiverDir, r.name) }

// newArchiver returns the archiver of the realm, nil if the process has no archive.
func (r *following) newArchiver() *archiver.Archiver {
	if r.archive == nil {
		return nil
	}
	var tooLarge time.Time
	var done archiver.Progress
	return archiver.New(archiver.Config{
		Realm: r.name, Store: r.archive, Log: r.events, State: r.state, Dir: r.archiverDir(),
		Instance: r.c.Instance, Limits: r.c.ArchiveLimits, Retention: r.archiveRetention, Now: r.time.Now, Logger: r.log, Failpoint: r.c.Failpoint,
		Acquire: func(ctx context.Context) (archiver.Lease, error) {
			return r.member.Acquire(ctx, r.name, lease.Options{Archiver: true})
		},
		Verifying: r.archivers.verifying, Busy: r.archivers.busy, Free: func(dir string) (uint64, error) {
			usage, err := r.c.Disk(dir)
			return usage.AvailBytes, err
		},
		Unusable: r.damagedEntry,
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
			if p.Segments != done.Segments || p.Snapshot != done.Snapshot { // something was archived, and not just found in the archive
				done = p
				r.unarchived.Store(nil)
			}
			r.metrics.archived(p)
		},
		Failed: func(err error) {
			r.unarchived.Store(&archiveFailure{time.Now(), err})
			r.archiveFailed(realmID(r.state.Checkpoint()), "cannot archive the log, which grows until that succeeds; it is tried again", err)
		},
	})
}

// archiveRetention returns what bounds the archive of the realm.
func (r *following) archiveRetention() lifecycle.Retention {
	if s := r.state.Settings(); s.HasArchiveRetention {
		return s.ArchiveRetention
	}
	return r.c.ArchiveRetention
}
