package archiver

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"golang.org/x/time/rate"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/datadir"
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
	Store archive.Store
	Log   *eventlog.Log
	State *state.State
	// Dir is the directory of temporary files. It is emptied.
	Dir      string
	Instance string // names this process in records
	Limits   Limits
	// Acquire waits until this process has the lease.
	Acquire func(context.Context) (Lease, error)
	// Writing reports whether this process is the writer of the realm.
	Writing func() bool
	Now     func() time.Time
	Logger  *slog.Logger
	// Progress is called when something was archived, and Failed when that has failed.
	Progress func(Progress)
	Failed   func(error)
}

// Progress says what is archived.
type Progress struct {
	Segments uint64 // the revision of the last commit in a segment
	Snapshot uint64 // the revision of the last verified snapshot; 0 for none
}

// Limits bound the work of an Archiver. Zero fields have their defaults.
type Limits struct {
	// SegmentBytes and SegmentAge are the size of the messages, and the time since the first of
	// them was read, from which on a segment is complete; 64 MiB and 10 min.
	SegmentBytes int64
	SegmentAge   time.Duration
	// SnapshotBytes and SnapshotAge are the size of the messages, and the time, since the last
	// verified snapshot from which on another is made; 256 MiB, or half the size of
	// the last snapshot if that is more, and 24 h.
	SnapshotBytes int64
	SnapshotAge   time.Duration
	// Rate is the maximum rate in bytes per second at which the log and the state are read and
	// folded; 32 MiB/s.
	Rate int64
	// Interval is the time between two looks at the log; 1 s. After a failure the archiver
	// pauses for this time, and up to 60 times as long. After a snapshot that could not be
	// verified or stored, it goes on with segments, and makes no snapshot for 600 times as long.
	Interval time.Duration
	// Turn is the time after which a writer releases the lease for Pause, so that a standby
	// can take it; 10 min and 15 s. A writer also waits for Pause before it acquires the lease.
	Turn, Pause time.Duration
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		to *time.Duration
		is time.Duration
	}{{&l.SegmentAge, 10 * time.Minute}, {&l.SnapshotAge, 24 * time.Hour}, {&l.Interval, time.Second}, {&l.Turn, 10 * time.Minute}, {&l.Pause, 15 * time.Second}} {
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
	return l
}

// Archiver archives a realm's log. Run is for one goroutine.
type Archiver struct {
	c       Config
	l       Limits
	limiter *rate.Limiter
	refused time.Time // when a snapshot could not be verified or stored last
}

// New returns an Archiver.
func New(c Config) *Archiver {
	l := c.Limits.withDefaults()
	return &Archiver{c: c, l: l, limiter: rate.NewLimiter(rate.Limit(l.Rate), int(min(l.Rate, 1<<20)))}
}

// Run archives until ctx ends. It reports failures, and tries again.
func (a *Archiver) Run(ctx context.Context) {
	defer func() { _ = os.RemoveAll(a.c.Dir) }() // the next run empties it
	for pause := a.l.Interval; ctx.Err() == nil; {
		worked, err := a.turn(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if worked {
			pause = a.l.Interval
		}
		a.c.Failed(err)
		sleep(ctx, pause)
		pause = min(2*pause, 60*a.l.Interval)
	}
}

// sleep waits, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// turn acquires the lease, and archives until the lease is lost, something fails, or another process may
// take the lease. worked reports whether a step has succeeded.
func (a *Archiver) turn(ctx context.Context) (worked bool, err error) {
	if a.c.Writing() && !sleep(ctx, a.l.Pause) {
		return false, nil
	}
	l, err := a.c.Acquire(ctx)
	if err != nil {
		return false, err
	}
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
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
	w := &work{Archiver: a, began: a.c.Now()}
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
		if !sleep(held, a.l.Interval) {
			return true, nil
		}
	}
}

// pace limits the rate.
func (a *Archiver) pace(ctx context.Context, bytes int) error {
	for burst := a.limiter.Burst(); bytes > 0; bytes -= burst {
		if err := a.limiter.WaitN(ctx, min(bytes, burst)); err != nil {
			return err
		}
	}
	return nil
}
