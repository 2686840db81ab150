package graph

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/archived"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/history"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/tail"
	"github.com/coppice-gc/coppice/services/graph/warn"
	"github.com/coppice-gc/coppice/services/graph/watch"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// realm is one realm in this process: a replica, and at times the writer.
type realm struct {
	c       *Config
	name    string
	log     *slog.Logger
	js      jetstream.JetStream
	metrics *metrics
	phase   atomic.Value          // phase
	failed  atomic.Pointer[error] // why it failed last, nil once it follows the log again
	waits   atomic.Pointer[error] // why await or awaitArchive waits, nil while neither does
	appends atomic.Pointer[eventlog.Log]
	stalled atomic.Pointer[stall] // of the attempts to acquire the lease, nil if NATS answers them
	warner  *warn.Warner
	// consumers observes the programs that take calls.
	consumers *consumers.Observer
	stuck     stuckCalls
	recent    *propagator.RecentCalls // calls about notices
	member    *lease.Member
	clock     *clock.Clock
	time      *clock.Realm
	watches   *watch.Process // bounds those of all realms of the process
	requests  *api.Process   // the same

	listed atomic.Pointer[coppicev1.Realm] // as the list of realms has it; nil before it was read
	cancel context.CancelFunc              // ends run; nil before it was started
	ended  chan struct{}                   // closed when run has ended for good

	// seen is the checkpoint of the state when it was opened. state is nil until it is
	// rebuilt, if it is unusable or its rebuild was interrupted.
	seen  *coppicev1.Checkpoint
	state *state.State
	// unusable is why the state must be rebuilt before it is opened; nil if it need not be.
	unusable error
	// cut is set if the log begins behind the state: see beginState.
	cut    *replay.CutError
	events *eventlog.Log
	hub    *watch.Hub
	shown  atomic.Pointer[watch.Hub] // hub, for metrics
	skips  replay.Skips

	archivers  *archivers
	archive    archive.Store                  // of all realms of the process; nil for none
	history    *archived.Log                  // events, with what the archive has before the stream's first message
	reading    *archived.Log                  // history for clients, which passes over damaged segments
	states     *atomic.Pointer[history.Cache] // of the past, of all realms
	past       *history.History
	unarchived atomic.Pointer[archiveFailure] // nil if the log was archived since
	measuring  sync.Mutex
	measured   archiveSize // what storage has found last
	// archiveWarnings are those of this realm's use of the archive.
	archiveWarnings archiveWarnings
	// passed are the entries of the archive that were passed over: see damagedEntry.
	passedMu sync.Mutex
	passed   unusableEntries
	// begins is the last position of the stream with which it was found to begin: what
	// precedes it is archived. See logBegins.
	begins atomic.Uint64

	keys *eventlog.Keys
	tail *tail.Keeper
	loss *writer.Loss // of commits of the log, until it is recorded; nil for none
	// logEnd is the last position of the log that this replica has caught up with.
	logEnd uint64

	parkedStream jetstream.Stream

	serving sync.Mutex
	served  *served // while the replica serves; see checkProtected
}

// realmID returns the realm id in a checkpoint, zero if it has none.
func realmID(c *coppicev1.Checkpoint) (id [16]byte) {
	copy(id[:], c.GetRealmId())
	return id
}

func (r *realm) dir() string { return filepath.Join(r.c.Dir, r.name) }

// run runs the realm until ctx ends or an error occurs that waiting does not cure.
//
//	open ─► follow the log ─► acquire the lease ─► epoch commit ─► decide ─┐
//	          ▲                                                            │
//	          └──────────── lease lost, or fenced ◄────────────────────────┘
func (r *realm) run(ctx context.Context) (err error) {
	r.enter(phaseWaiting)
	r.state, r.seen, r.events, r.loss, r.unusable, r.cut = nil, nil, nil, nil, nil, nil // of the run before
	r.openTail()
	if err := r.openState(); err != nil {
		return err
	}
	if err := r.discardDeleted(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := r.whenFailed(cancel)
	defer func() {
		stop()
		cancel()
		r.skips.Stop()
		err = r.closeState(err)
	}()
	if err := r.openHistory(ctx); err != nil {
		return err
	}
	stop()
	stop = func() {}
	if err := r.beginState(ctx); err != nil {
		return err
	}
	stop = r.whenFailed(cancel)
	return r.replicate(ctx, cancel)
}

// openHistory opens the log of the realm, with what the archive has before it, and checks that it is
// the one that this replica knows.
func (r *realm) openHistory(ctx context.Context) error {
	if err := r.openLog(ctx); err != nil {
		return err
	}
	if err := r.openArchived(ctx); err != nil {
		return err
	}
	r.begins.Store(0)
	r.clock.Compare() // NATS replies now; earlier comparisons may have failed
	begun := time.Now()
	catching := func() bool { return time.Since(begun) < r.events.MaxLag() }
	lost := r.restoreTail(ctx, catching)
	if err := r.checkLog(ctx, catching); err != nil {
		return errors.Join(err, lost)
	}
	return r.checkExtent(ctx)
}

// replicate follows the log, serves readers, and writes while it has the lease, until ctx ends or
// an error occurs. It calls cancel, which ends ctx, if the log has lost commits that the state has.
func (r *realm) replicate(ctx context.Context, cancel func()) (err error) {
	watching, stopWatching := context.WithCancel(ctx)
	var watched sync.WaitGroup
	var lost error
	watched.Go(func() { r.keepTail(watching) })
	watched.Go(func() {
		if lost = r.checkLogs(watching); lost != nil {
			cancel()
		}
	})
	defer func() {
		stopWatching()
		watched.Wait()
		if lost != nil {
			err = lost
		}
		err = errors.Join(err, r.tail.Keep(r.state.Checkpoint()))
	}()
	state := r.state
	r.events.Knows(func() eventlog.Chain { return eventlog.ChainOf(state.Checkpoint()) })
	r.appends.Store(r.events)
	r.enter(phaseCatching)
	r.hub = r.watches.NewHub(r.name, r.state.Checkpoint().GetRevision(), r.clock.Now, r.c.Watch)
	defer r.hub.Close()
	r.shown.Store(r.hub)
	r.past = r.openPast()
	defer func() { err = errors.Join(err, r.past.Close()) }()
	stopObserving, err := r.consumers.Observe(r.c.Conn)
	if err != nil {
		return err
	}
	defer stopObserving()
	// The replica serves when it has caught up for the first time. Before, its replies
	// would be out of date, or even empty; clients get "not ready" instead (X15).
	var replica api.Stopper
	serve := func() (err error) {
		if replica == nil {
			watched.Go(func() { r.runArchiver(watching) })
			replica, err = r.serveReplica()
		}
		return err
	}
	defer func() {
		r.serve(nil)
		if replica != nil {
			err = errors.Join(err, replica.Stop())
		}
	}()
	for {
		l, err := r.follow(ctx, serve)
		if err != nil {
			return err
		}
		if err = r.checkNewest(ctx); err == nil {
			err = r.write(ctx, l)
		}
		if fail := l.Release(context.WithoutCancel(ctx)); fail != nil {
			r.log.Warn("cannot release the lease", "error", fail)
		}
		var skew *clock.SkewError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errRecorded):
			return err
		case errors.Is(err, errLeave):
			r.log.Info("not the writer any more; another process takes over")
		case errors.Is(err, writer.ErrLeaseLost), errors.Is(err, eventlog.ErrFenced), errors.As(err, &skew):
			r.log.Warn("not the writer any more", "reason", err)
		case errors.As(err, new(*eventlog.BrokenError)):
			return cmp.Or(r.checkExtent(ctx), err) // the former says what to do
		default:
			return err
		}
	}
}

// serveReplica begins to serve readers.
func (r *realm) serveReplica() (api.Stopper, error) {
	r.serve(&served{r.state, r.events})
	return api.ServeReplica(r.apiConfig(), api.Replica{
		Reached:   r.hub.Wait,
		Admit:     r.hub.Admit,
		Watch:     func(ctx context.Context, t watch.Target) error { return r.hub.Serve(ctx, r.state, t) },
		Verify:    r.verify,
		Log:       archived.NewHistory(r.reading),
		JS:        r.js,
		Consumers: r.consumers,
		Heartbeat: r.c.Heartbeat,
		ReplyTime: r.c.ReplyTime,
		Now:       r.time.Now,
	})
}

func (r *realm) apiConfig() api.Config {
	state := r.state
	id := func() [16]byte { return realmID(state.Checkpoint()) } // a new realm has none at first
	return api.Config{
		Realm: r.name, Conn: r.c.Answers, AnyActor: r.c.AnyActor, State: r.state, Instance: r.c.Instance, Version: r.c.Version, Log: r.log, Warn: r.warner.Reference,
		PlanLimit: r.c.PlanLimit, PlanTime: r.c.PlanTime, Process: r.requests, Grants: api.NewGrants(r.c.Secrets, r.name, id),
	}
}
