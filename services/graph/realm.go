package graph

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/warn"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// realm is one realm in this process, from when the process begins to serve it until it ceases to. Each run (see run)
// makes values of these types, one after the other, with what that part of a run has. On the right are the phases that
// /readyz shows meanwhile:
//
//	withLog     the log, and the state into which it is folded: the others are built on it
//	opening     looks for a state that fits the log             waiting for NATS, catching up with the log
//	following   has a state: folds the log and serves readers   catching up with the log, standing by
//	term        writes: decides commands, and folds no log      writer
type realm struct {
	c       *Config
	name    string
	log     *slog.Logger
	js      jetstream.JetStream
	keys    *eventlog.Keys
	metrics *metrics
	warner  *warn.Warner
	// skips counts messages that are no commits. It outlasts runs: the next one may read them again.
	skips replay.Skips

	// Shared with the other realms of the process.
	member    *lease.Member
	clock     *clock.Clock
	time      *clock.Realm
	watches   *watch.Process
	requests  *serve.Process
	archivers *archivers
	archive   archive.Store               // nil for none
	states    *atomic.Pointer[past.Cache] // of the past

	// What is known of the programs that take calls.
	consumers *consumers.Observer
	stuck     stuckCalls
	recent    *propagator.RecentCalls // calls about notices

	// What the list of realms wants, and how the runs end.
	listed atomic.Pointer[coppicev1.Realm] // as the list of realms has it; nil before it was read
	cancel context.CancelFunc              // ends run; nil before it was started
	ended  chan struct{}                   // closed when run has ended for good

	// What /readyz and metrics show.
	phase   atomic.Value                 // phase
	failed  atomic.Pointer[error]        // why the realm failed last, nil once it follows the log again
	waits   atomic.Pointer[error]        // why await or awaitArchive waits, nil while neither does
	stalled atomic.Pointer[stall]        // why the lease cannot be acquired, nil if NATS answers the attempts
	appends atomic.Pointer[eventlog.Log] // the log to which appends may be waiting
	shown   atomic.Pointer[watch.Hub]    // the hub whose watches are counted
	serving sync.Mutex
	served  *served // while the replica serves; see checkProtected

	// What is known of the archive.
	unarchived      atomic.Pointer[archiveFailure] // nil if the log was archived since
	archiveWarnings archiveWarnings                // of this realm's use of it
	passedMu        sync.Mutex
	passed          unusableEntries // entries that were passed over: see damagedEntry
	measuring       sync.Mutex
	measured        archiveSize // what storage has found last
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
	o := newOpening(r)
	if err := o.openState(); err != nil {
		return err
	}
	if err := o.discardDeleted(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		o.skips.Stop()
		if err = o.closeState(err); err != nil && o.unusable != nil {
			err = &unusableError{err}
		}
	}()
	stop := o.whenFailed(cancel)
	err = o.openHistory(ctx)
	stop()
	if err != nil {
		return err
	}
	if err := o.findState(ctx); err != nil {
		return err
	}
	stop = o.whenFailed(cancel)
	defer stop()
	return newFollowing(o.withLog).replicate(ctx, cancel)
}

// unusableError is the error of a run that has not replaced a state which could not be used.
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }
