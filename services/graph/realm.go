package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/run"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
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
	appends atomic.Pointer[eventlog.Log]
	stalled atomic.Pointer[stall] // of the attempts to acquire the lease, nil if NATS answers them
	warner  *warn.Warner
	clock   *clock.Clock
	time    *clock.Realm

	// seen is how far the state had got when it was opened. state is nil while it
	// has still to be remade.
	seen   *coppicev1.Checkpoint
	state  *state.State
	events *eventlog.Log
	hub    *watch.Hub
	shown  atomic.Pointer[watch.Hub] // hub, for metrics
	skips  skips

	keys *eventlog.Keys
	// logEnd is the last position of the log that this replica has caught up with.
	logEnd uint64

	parkedStream jetstream.Stream
}

// phase is how far a realm has come.
type phase string

const (
	phaseWaiting  phase = "waiting for NATS"
	phaseCatching phase = "catching up with the log"
	phaseStandby  phase = "standing by"
	phaseWriter   phase = "writer"
	phaseFailed   phase = "failed"
)

// phases are all of them.
var phases = []phase{phaseWaiting, phaseCatching, phaseStandby, phaseWriter, phaseFailed}

// enter changes the phase.
func (r *realm) enter(p phase) {
	if p == phaseStandby || p == phaseWriter {
		r.failed.Store(nil)
	}
	r.phase.Store(p)
	r.metrics.phase(p)
}

// overdue is from which age on an append that is not settled, or a lease that NATS does not
// store, makes the realm not ready.
const overdue = 5 * time.Second

// ready returns nil when the realm follows its log and, as the writer, can append to
// it, and otherwise why not.
func (r *realm) ready() error {
	p := r.phase.Load().(phase)
	if why := r.failed.Load(); why != nil {
		return fmt.Errorf("realm %s: %s, to be tried again: %w", r.name, p, *why)
	}
	if p != phaseStandby && p != phaseWriter {
		return fmt.Errorf("realm %s: %s", r.name, p)
	}
	if s := r.stalled.Load(); s != nil && p == phaseStandby {
		if age := clock.SinceBoot() - s.since; age > overdue {
			return fmt.Errorf("realm %s: %s, but NATS has not stored its lease for %s, as when the disk of NATS is full: %w", r.name, p, age.Round(time.Second), s.reason)
		}
	}
	if log := r.appends.Load(); log != nil {
		if age, reason := log.Pending(); age > overdue {
			return fmt.Errorf("realm %s: %s, but an append to its log has been waiting for %s, as when the disk of NATS is full: %w",
				r.name, p, age.Round(time.Second), cmp.Or(reason, errNoAnswer))
		}
	}
	return nil
}

var errNoAnswer = errors.New("NATS has not answered")

// stall is why NATS does not store the lease of a realm, and since when.
type stall struct {
	since  time.Duration // clock.SinceBoot
	reason error
}

// attempted notes what became of an attempt to acquire the lease.
func (r *realm) attempted(err error) {
	if err == nil {
		r.stalled.Store(nil)
		return
	}
	s := &stall{clock.SinceBoot(), err}
	if was := r.stalled.Load(); was != nil {
		s.since = was.since
	}
	r.stalled.Store(s)
}

func (r *realm) dir() string { return filepath.Join(r.c.Dir, r.name) }

// run runs the realm until ctx ends, or something happens that waiting does
// not cure.
//
//	open ─► follow the log ─► have the lease ─► epoch commit ─► decide ─┐
//	          ▲                                                         │
//	          └──────────── lease lost, or fenced ◄────────────────────-┘
func (r *realm) run(ctx context.Context) (err error) {
	r.enter(phaseWaiting)
	r.state, r.seen, r.events = nil, nil, nil // of the run before
	if err := r.openState(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := r.whenFailed(cancel)
	defer func() {
		stop()
		cancel()
		r.skips.stop()
		err = r.closeState(err)
	}()
	if err := r.openLog(ctx); err != nil {
		return err
	}
	r.clock.Compare() // which needs a log
	begun := time.Now()
	if err := r.await(ctx, func(ctx context.Context) error {
		return replay.CheckLog(ctx, r.seen, r.events, r.name, r.dir(), time.Since(begun) < r.events.Patience())
	}); err != nil {
		return err
	}
	if r.state == nil {
		if err := r.remakeState(); err != nil {
			return err
		}
		stop = r.whenFailed(cancel)
	}
	r.appends.Store(r.events)
	r.enter(phaseCatching)
	r.hub = watch.NewHub(r.state.Checkpoint().GetRevision(), r.clock.Now, r.c.Watch)
	r.shown.Store(r.hub)
	// Whoever asks a replica that has not caught up would be told of a realm as it
	// was, of no kinds and no objects in the end, where "not ready" is true (X15).
	var replica api.Stopper
	serve := func() (err error) {
		if replica == nil {
			replica, err = api.ServeReplica(r.apiConfig(), api.Replica{
				Reached:   r.hub.Wait,
				Admit:     r.hub.Admit,
				Watch:     func(ctx context.Context, t watch.Target) error { return r.hub.Serve(ctx, r.state, t) },
				Verify:    r.verify,
				Log:       r.events,
				JS:        r.js,
				Heartbeat: r.c.Heartbeat,
				ReplyTime: r.c.ReplyTime,
				Now:       r.time.Now,
			})
		}
		return err
	}
	defer func() {
		if replica != nil {
			err = errors.Join(err, replica.Stop())
		}
	}()
	for {
		l, err := r.follow(ctx, serve)
		if err != nil {
			return err
		}
		err = r.write(ctx, l)
		if fail := l.Release(context.WithoutCancel(ctx)); fail != nil {
			r.log.Warn("cannot release the lease", "error", fail)
		}
		var skew *clock.SkewError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, writer.ErrLeaseLost), errors.Is(err, eventlog.ErrFenced), errors.As(err, &skew):
			r.log.Warn("not the writer any more", "reason", err)
		default:
			return err
		}
	}
}

func (r *realm) apiConfig() api.Config {
	return api.Config{
		Realm: r.name, Conn: r.c.Answers, AnyInbox: r.c.AnyInbox, State: r.state, Instance: r.c.Instance, Version: r.c.Version, Log: r.log, Warn: r.warner.Reference,
		PlanLimit: r.c.PlanLimit, PlanTime: r.c.PlanTime,
	}
}

// openLog opens the log and makes sure that the other streams are there. It
// creates the log of a new realm only: a state that has seen one waits for
// whoever restores it.
func (r *realm) openLog(ctx context.Context) error {
	seen := r.seen.GetSequence()
	return r.await(ctx, func(ctx context.Context) (err error) {
		if seen > 0 {
			r.events, err = eventlog.OpenExisting(ctx, r.js, r.name, r.keys)
		} else {
			r.events, err = eventlog.Open(ctx, r.js, r.name, r.c.Replicas, r.keys)
		}
		switch {
		case seen > 0 && errors.Is(err, jetstream.ErrStreamNotFound):
			return &replay.MismatchError{Realm: r.name, Dir: r.dir(), What: fmt.Sprintf("the stream of the log, %s, is gone, and the state has seen %d commits of it", bus.LogStream(r.name), seen)}
		case err != nil:
			return err
		}
		r.events.Report(r.log)
		if err = bus.EnsureStreams(ctx, r.js, r.name, r.c.Replicas); err != nil {
			return err
		}
		r.parkedStream, err = r.js.Stream(ctx, bus.ParkedStream(r.name))
		return err
	})
}

// await does what needs NATS, and waits for NATS, for JetStream and for a
// leader: until it succeeds, or fails for what waiting does not cure.
func (r *realm) await(ctx context.Context, do func(context.Context) error) error {
	said := ""
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return do(ctx)
		}()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !bus.IsNotReady(err) && !errors.Is(err, replay.ErrBehind):
			return err
		case err.Error() != said:
			said = err.Error()
			r.log.Info("waiting for JetStream", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// openState opens the state. One that cannot be read is thrown away: it is a
// cache of the log. One that was not finished stays until it is known that its
// log is still there: then remakeState is called.
func (r *realm) openState() error {
	s, err := state.Open(r.dir(), r.c.State)
	var unfinished *state.UnfinishedError
	switch {
	case errors.As(err, &unfinished):
		r.log.Warn("the state cannot be used, and is made anew from the log", "error", err)
		r.seen = unfinished.Checkpoint
		return nil
	case errors.Is(err, state.ErrSchema), errors.Is(err, pebble.ErrCorruption):
		r.log.Warn("the state cannot be used, and is made anew from the log", "error", err)
		return r.remakeState()
	case errors.Is(err, state.ErrLocked):
		return fmt.Errorf("realm %s: %s is in use by another process; give each graph service a directory of its own", r.name, r.dir())
	case err != nil:
		return r.failure(err)
	}
	r.state, r.seen = s, s.Checkpoint()
	return nil
}

// remakeState throws the state away, which is not open, and begins an empty one.
func (r *realm) remakeState() error {
	if err := state.Remove(r.dir()); err != nil {
		return err
	}
	s, err := state.Open(r.dir(), r.c.State)
	if err != nil {
		return r.failure(err)
	}
	r.state, r.seen = s, s.Checkpoint()
	return nil
}

// failure says what to do about a state that cannot be written.
func (r *realm) failure(err error) error {
	what := "make room, or mend the disk, and start again"
	if errors.Is(err, pebble.ErrCorruption) {
		what = "end this process, make the state anew with `coppice rebuild`, and start again"
	}
	return fmt.Errorf("realm %s: %w; the log is unharmed: %s", r.name, err, what)
}

// whenFailed calls end when the state has failed, until it is stopped.
func (r *realm) whenFailed(end func()) (stop func()) {
	if r.state == nil {
		return func() {}
	}
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-r.state.Failed():
			end()
		case <-stopped:
		}
	}()
	return func() {
		close(stopped)
		<-done
	}
}

// closeState closes the state, after everything that uses it has ended, and
// returns why that was: that the state has failed, if it has, rather than what
// came of it.
func (r *realm) closeState(why error) error {
	if r.state == nil {
		return why
	}
	if why == nil {
		if err := r.state.Sync(); err != nil {
			r.log.Warn("what was folded last is folded again at the next start", "error", err)
		}
	}
	err := r.state.Close()
	if fail := r.state.Failure(); fail != nil {
		return r.failure(fail)
	}
	return errors.Join(why, err)
}

// follow folds the log until this process has the lease and has caught up. It
// calls serve when it has caught up for the first time.
func (r *realm) follow(ctx context.Context, serve func() error) (*lease.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := r.folder()
	defer r.hub.Abort()
	r.stalled.Store(nil)

	start := time.Now()
	if err := r.catchUp(ctx, f); err != nil {
		return nil, err
	}
	if f.Events() > 0 {
		r.log.Info("caught up with the log", "sequence", f.Sequence(), "revision", f.Revision(), "events", f.Events(), "seconds", time.Since(start).Seconds())
	}
	if err := serve(); err != nil {
		return nil, err
	}
	r.enter(phaseStandby)

	type result struct {
		lease *lease.Lease
		err   error
	}
	acquired := make(chan result, 1)
	stop, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	go func() {
		if err := r.awaitClock(ctx); err != nil {
			acquired <- result{nil, err}
			stopFollowing()
			return
		}
		l, err := lease.Acquire(ctx, r.js, lease.Config{
			Realm: r.name, Holder: lease.Holder{ID: r.c.ID, Process: r.c.process, Name: r.c.Instance}, TTL: r.c.LeaseTTL, Replicas: r.c.Replicas, Log: r.log,
			Attempted: r.attempted,
		})
		acquired <- result{l, err}
		stopFollowing()
	}()
	err := f.Follow(stop, r.events)
	if stop.Err() == nil || !errors.Is(err, context.Canceled) {
		cancel()
		if got := <-acquired; got.lease != nil {
			_ = got.lease.Release(context.WithoutCancel(ctx))
		}
		return nil, err
	}
	got := <-acquired
	if got.err != nil {
		return nil, got.err
	}
	// What the writer before us appended last, also while we waited.
	if err := r.catchUp(ctx, f); err != nil {
		_ = got.lease.Release(context.WithoutCancel(ctx))
		return nil, err
	}
	return got.lease, nil
}

// folder folds the log into the state.
func (r *realm) folder() *replay.Folder {
	f := replay.NewFolder(r.state, r.events.Created(), r.keys)
	f.Begin = r.hub.Begin
	f.Flushed = func(revision uint64, changes []state.Change) {
		r.hub.Commit(revision, changes)
		r.metrics.applied(revision)
	}
	f.Skipped = r.skip
	return f
}

// awaitClock waits until the clock is near the NATS server's time. Until then another
// process, whose clock is, should have the lease.
func (r *realm) awaitClock(ctx context.Context) error {
	reported := ""
	for {
		err := r.clock.Check()
		if err == nil {
			return nil
		}
		var skew *clock.SkewError
		if errors.As(err, &skew) && skew.Ahead != 0 && reported == "" {
			reported = err.Error()
			r.log.Error("standing by until the clock is right", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(clockPause):
		}
	}
}

// clockPause is how often the clock is looked at by a process that waits for it.
const clockPause = 50 * time.Millisecond

// catchUp folds the log as far as it goes now.
func (r *realm) catchUp(ctx context.Context, f *replay.Folder) error {
	var last uint64
	if err := r.await(ctx, func(ctx context.Context) (err error) {
		last, _, err = r.events.Last(ctx)
		return err
	}); err != nil {
		return err
	}
	defer func() { r.logEnd = f.Position() }()
	if last > 0 && f.Sequence() == 0 && r.phase.Load() == phaseCatching { // nobody is served yet
		r.log.Info("the state is made from the log", "commits", last)
		return f.FoldFromEmpty(ctx, r.events, last)
	}
	return f.FoldTo(ctx, r.events, last)
}

// write is the writer until ctx ends, the lease is lost, or another writer was
// first.
func (r *realm) write(ctx context.Context, l *lease.Lease) error {
	var (
		g       run.Group
		prop    *propagator.Propagator
		kinds   = r.state.Kinds()
		options = r.state.Options()
		stopper api.Stopper
		ready   = make(chan struct{})
	)
	var w *writer.Writer
	w = writer.New(writer.Config{
		Realm: r.name, State: r.state, Log: located{r.events, r.state}, LogEnd: r.logEnd, NewestKey: r.keys.Newest, Lease: l, MaxPayload: int(r.c.Conn.MaxPayload()),
		Now: r.time.Now, CheckClock: r.clock.Check, Begin: r.hub.Begin, Abort: r.hub.Abort, Logger: r.log, Failpoint: r.c.Failpoint,
		Ready: func() { close(ready) },
		Committed: func(c writer.Committed) {
			r.hub.Commit(c.Revision, c.Changes)
			r.metrics.committed(c)
			if c.Skipped > 0 {
				r.skipAll(c.Position-1, c.Skipped, "they came between two commits")
			}
			r.metrics.queue(w.Queued())
			prop.Notify(c.Owed)
			if c.SessionClosed {
				prop.SessionClosed()
			}
			if k, o := r.state.Kinds(), r.state.Options(); k != kinds || o != options {
				kinds, options = k, o
				prop.Reconsider()
			}
		},
	})
	r.time.NotBefore(lifecycle.Time(r.state.Checkpoint().GetTime()))
	prop = propagator.New(r.propagatorConfig(w))
	writing, stopWriting := context.WithCancel(ctx)
	g.Add(func() error { return w.Run(writing) }, func(error) { stopWriting() })

	propagating, stopPropagating := context.WithCancel(ctx)
	g.Add(func() error {
		select {
		case <-ready:
		case <-propagating.Done():
			return nil
		}
		return prop.Run(propagating)
	}, func(error) { stopPropagating() })

	serving, stopServing := context.WithCancel(ctx)
	g.Add(func() (err error) {
		select {
		case <-ready:
		case <-serving.Done():
			return nil
		}
		stopper, err = api.ServeWriter(r.apiConfig(), api.Writer{Writer: w, Lease: l, Redrive: prop.Republish, Status: prop.Status, Answered: r.metrics.answered, WarnCycle: r.warner.Cycle, Now: r.time.Now})
		if err != nil {
			return err
		}
		r.enter(phaseWriter)
		r.log.Info("this is the writer", "epoch", r.state.Checkpoint().GetEpoch(), "revision", r.state.Checkpoint().GetRevision())
		<-serving.Done()
		r.enter(phaseStandby)
		return stopper.Stop()
	}, func(error) { stopServing() })

	watching, stopWatching := context.WithCancel(ctx)
	g.Add(func() error {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			owed, err := prop.Count()
			if err != nil {
				return err
			}
			r.metrics.owed(owed.GetOwed(), r.time.Now())
			r.metrics.queue(w.Queued())
			r.countWork(watching)
			select {
			case <-watching.Done():
				return nil
			case <-tick.C:
			}
		}
	}, func(error) { stopWatching() })

	return g.Run()
}

// verify compares the state, as it is now, with its log.
func (r *realm) verify(ctx context.Context, progress func(sequence, last uint64)) (*coppicev1.VerifyReply, error) {
	snap := r.state.Snapshot()
	v, err := replay.Verify(ctx, snap, r.events, r.keys, progress)
	return v, errors.Join(err, snap.Close())
}
