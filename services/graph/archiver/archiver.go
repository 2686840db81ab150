package archiver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Lease is the lease of a realm's archiver.
type Lease interface {
	Lost() <-chan struct{}
	Release(ctx context.Context) error
}

// Config configures an Archiver. All fields but Limits are required.
type Config struct {
	Realm string
	// Store is one whose calls end, as those of an archive.Limited: while a call hangs, no other process archives.
	Store archive.Store
	Log   *eventlog.Log
	State *state.State
	// Dir is the directory of temporary files. It is emptied.
	Dir      string
	Instance string // names this process in records
	Limits   Limits
	// Acquire waits until this process has the lease.
	Acquire func(context.Context) (Lease, error)
	// Retention returns what bounds the archive of the realm.
	Retention func() lifecycle.Retention
	// Writing reports whether this process is the writer of the realm.
	Writing func() bool
	// Verifying has one place: of the archivers of a process, one verifies a snapshot at a time.
	Verifying *semaphore.Weighted
	// Busy reports whether the process has folded commits of any realm in the last seconds. While it
	// has, a verification works for a share of the time.
	Busy func() bool
	// Free returns the room in bytes on the disk of a directory.
	Free   func(dir string) (uint64, error)
	Now    func() time.Time
	Logger *slog.Logger
	// Progress is called when the archiver has read what the archive has, and each time that
	// something was archived. Failed is called when archiving has failed; it is tried again.
	Progress func(Progress)
	Failed   func(error)
	// Unusable is called with the name of an entry that cannot be used and is passed over; the error says what to do.
	Unusable func(name string, err error)
	// TooLarge is called when the archive is larger than its retention because of what it needs.
	TooLarge func(bytes int64, keep lifecycle.Retention)
	// Failpoint is called at the steps of a cut, for tests that kill the process there.
	Failpoint func(step string)
}

// Progress says what is archived.
type Progress struct {
	Segments uint64 // the revision of the last commit in a segment
	Snapshot uint64 // the revision of the last verified snapshot; 0 for none
	Bytes    int64  // the size of the realm's entries
}

// Limits bound the work of an Archiver. Zero fields have their defaults.
type Limits struct {
	// A segment is complete when its messages have SegmentBytes, or SegmentAge after its first
	// commit was written; 64 MiB and 10 min.
	SegmentBytes int64
	SegmentAge   time.Duration
	// Another snapshot is made when the messages since the last verified one have SnapshotBytes,
	// or half the size of that snapshot if this is more, or when it is older than SnapshotAge;
	// 256 MiB and 24 h. A retention of the log may lower these four limits.
	SnapshotBytes int64
	SnapshotAge   time.Duration
	// Rate is the maximum rate in bytes per second at which the log and the state are read and
	// folded; 32 MiB/s. Share is the share of its time in which a verification works while the process
	// is busy; 5% for each core of the process. Both rise as the log grows beyond its retention: see Speed.
	Rate  int64
	Share float64
	// Reserve is the room in bytes that a verification leaves on the disk; 256 MiB.
	Reserve uint64
	// Interval is the time between two looks at the log; 1 s. After a failure the archiver
	// pauses for this time, and up to 60 times as long. After a snapshot that could not be
	// verified or stored, it goes on with segments, and makes no snapshot for 600 times as long.
	Interval time.Duration
	// Turn is the time after which a writer that has put a segment releases the lease, so that
	// a standby can take it. Pause is the time for which a writer waits before it acquires the
	// lease; 10 min and 15 s.
	Turn, Pause time.Duration
	// Prune is the time between two looks at what is beyond the retention; 1 h. After a
	// snapshot the archiver looks, too.
	Prune time.Duration
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		to *time.Duration
		is time.Duration
	}{{&l.SegmentAge, 10 * time.Minute}, {&l.SnapshotAge, 24 * time.Hour}, {&l.Interval, time.Second}, {&l.Turn, 10 * time.Minute}, {&l.Pause, 15 * time.Second}, {&l.Prune, time.Hour}} {
		if *d.to == 0 {
			*d.to = d.is
		}
	}
	for _, d := range []struct {
		to *int64
		is int64
	}{{&l.SegmentBytes, 64 << 20}, {&l.SnapshotBytes, 256 << 20}, {&l.Rate, 32 << 20}} {
		if *d.to == 0 {
			*d.to = d.is
		}
	}
	l.Share = cmp.Or(l.Share, workShare*float64(runtime.GOMAXPROCS(0)))
	l.Reserve = cmp.Or(l.Reserve, 256<<20)
	return l
}

// workShare is the share of each core that a verification takes while the process is busy.
const workShare = 0.05

// Archiver archives a realm's log, and cuts it to its retention. Run is for one goroutine.
type Archiver struct {
	c       Config
	l       Limits
	pacer   pacer
	refused time.Time // when a snapshot could not be verified or stored last
	pruning pruning
	merges  merges
	// checked has the content of the snapshots that were read since they were put, by name, and
	// unusable is the commit of the last verified snapshot if that cannot be used, else 0.
	checked  map[string][32]byte
	unusable uint64
	flushing flushing
}

// New returns an Archiver.
func New(c Config) *Archiver {
	l := c.Limits.withDefaults()
	return &Archiver{c: c, l: l, pacer: pacer{bytes: rate.NewLimiter(rate.Limit(l.Rate), int(min(l.Rate, 1<<20))), speed: 1}, checked: map[string][32]byte{}, merges: merges{damaged: map[string]bool{}}, flushing: newFlushing()}
}

// Run archives until ctx ends. It reports failures, and tries again.
func (a *Archiver) Run(ctx context.Context) {
	// A process that was killed has left files, and this one may never get the lease.
	if err := os.RemoveAll(a.c.Dir); err != nil {
		a.c.Logger.Warn("cannot remove temporary files of the archiver", "error", err)
	}
	defer func() { _ = os.RemoveAll(a.c.Dir) }() // the next run empties it
	for pause := a.l.Interval; ctx.Err() == nil; {
		worked, err := a.turn(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if worked {
			pause = a.l.Interval
		}
		a.flushing.fail(err)
		a.c.Failed(err)
		_ = a.sleep(ctx, pause) // the loop looks at ctx
		pause = min(2*pause, 60*a.l.Interval)
	}
}

// turn acquires the lease, and archives until the lease is lost, something fails, or another process may
// take the lease. worked reports whether a step has succeeded.
func (a *Archiver) turn(ctx context.Context) (worked bool, err error) {
	if a.c.Writing() && a.sleep(ctx, a.l.Pause) != nil {
		return false, nil
	}
	l, err := a.c.Acquire(ctx)
	if err != nil {
		return false, err
	}
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	a.flushing.leased.Store(true)
	defer func() {
		a.flushing.leased.Store(false)
		if failed := l.Release(context.WithoutCancel(ctx)); failed != nil {
			a.c.Logger.Warn("cannot release the lease of the archiver", "error", failed)
		}
	}()
	go func() {
		select {
		case <-l.Lost():
			cancel()
		case <-held.Done():
		}
	}()
	if err := errors.Join(os.RemoveAll(a.c.Dir), datadir.Make(a.c.Dir)); err != nil {
		return false, err
	}
	w := &work{Archiver: a, at: replica{a.c.State}, began: a.c.Now(), readBefore: map[string]bool{}}
	defer w.discard()
	for until := time.Now().Add(a.l.Turn); ; {
		put, err := w.step(held)
		if held.Err() != nil {
			return worked, nil
		}
		if err != nil {
			return worked, err
		}
		worked = true
		if put && a.c.Writing() && time.Now().After(until) {
			return true, nil
		}
		if a.sleep(held, a.l.Interval) != nil {
			return true, nil
		}
	}
}
