package graph

import (
	"context"
	"errors"
	"time"

	"github.com/oklog/run"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/tracing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/api/expiry"
	"github.com/coppice-gc/coppice/services/graph/api/leases"
	"github.com/coppice-gc/coppice/services/graph/api/objects"
	"github.com/coppice-gc/coppice/services/graph/api/operations"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/policies"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// write runs the writer, the propagator and the API of the writer, until ctx ends, the
// lease is lost, or another writer has appended (fencing).
func (r *following) write(ctx context.Context, l *lease.Lease) error {
	if r.loss == nil {
		var err error
		if r.loss, err = r.restored(ctx); err != nil {
			return err
		}
		defer func() { r.loss = nil }() // the next term looks again: another one may have recorded it
	}
	t := r.newTerm(l)
	if r.loss != nil {
		return r.recordLoss(ctx, t.w, t.ready)
	}
	var g run.Group
	for _, part := range []func(context.Context) error{t.w.Run, t.propagate, t.walk, t.serveWriter, t.leave, t.measure} {
		ctx, cancel := context.WithCancel(ctx)
		g.Add(func() error { return part(ctx) }, func(error) { cancel() })
	}
	return g.Run()
}

// term is what runs while this process is the writer of a realm.
type term struct {
	*following
	lease  *lease.Lease
	w      *writer.Writer
	prop   *propagator.Propagator
	walker *policies.Walker

	ready   chan struct{} // closed when the writer has appended its first commit
	resumed chan struct{} // closed while the realm is not paused

	// What the last commit has left, for applied.
	paused   bool
	kinds    *lifecycle.Kinds
	settings lifecycle.Settings
}

func (r *following) newTerm(l *lease.Lease) *term {
	t := &term{
		following: r, lease: l, ready: make(chan struct{}), resumed: make(chan struct{}),
		paused: r.state.Realm().Paused, kinds: r.state.Kinds(), settings: r.state.Settings(),
	}
	if !t.paused {
		close(t.resumed)
	}
	t.w = writer.New(writer.Config{
		Realm:      r.name,
		State:      r.state,
		Log:        located{r.events, r.wholeLog, r.state},
		LogEnd:     r.end,
		NewestKey:  r.keys.Newest,
		Loss:       r.loss,
		Lease:      l,
		MaxPayload: int(r.c.Conn.MaxPayload()),
		Budget:     r.c.QueueBudget,
		Counted:    r.metrics.undecided,
		Now:        r.time.Now,
		CheckClock: r.clock.Check,
		Begin:      r.hub.Begin,
		Abort:      r.hub.Abort,
		Ready:      func() { close(t.ready) },
		Applied:    t.applied,
		Logger:     r.log,
		Tracer:     tracing.Tracer(r.c.TracerProvider),
		Failpoint:  r.c.Failpoint,
	})
	r.time.NotBefore(lifecycle.Time(r.state.Checkpoint().GetTime()))
	t.prop = propagator.New(r.propagatorConfig(t.w))
	t.walker = policies.New(r.state, func(ctx context.Context, s policies.Step) error { return coverStep(ctx, t.w, s) })
	return t
}

// applied passes on what a commit has changed. The writer calls it after each commit, in order.
func (t *term) applied(c writer.Applied) {
	t.hub.Commit(c.Revision, c.Changes)
	t.metrics.committed(c)
	if c.Skipped > 0 {
		t.skipAll(c.Position-1, c.Skipped, "they came between two commits")
	}
	t.metrics.queue(t.w)
	t.prop.Trace(c.Pending, c.Traces.Changed, c.Traces.Related)
	t.prop.Notify(c.Pending)
	if len(t.state.Kinds().Policies()) > 0 {
		t.walker.Notify()
	}
	if c.SessionClosed {
		t.prop.SessionClosed()
	}
	t.tripped(c.Tripped)
	if c.BrakeReleased {
		t.prop.Released()
	}
	if t.paused && !t.state.Realm().Paused {
		t.paused = false
		close(t.resumed)
		t.log.Info("the realm is resumed")
	}
	if kinds, settings := t.state.Kinds(), t.state.Settings(); kinds != t.kinds || settings != t.settings {
		t.kinds, t.settings = kinds, settings
		t.prop.Reconsider()
	}
}

// after waits until channels are closed. It reports false if ctx ends before.
func after(ctx context.Context, begun ...<-chan struct{}) bool {
	for _, c := range begun {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (t *term) propagate(ctx context.Context) error {
	if !after(ctx, t.ready, t.resumed) {
		return nil
	}
	return t.prop.Run(ctx)
}

func (t *term) walk(ctx context.Context) error {
	if !after(ctx, t.ready, t.resumed) {
		return nil
	}
	return t.walkPolicies(ctx, t.walker)
}

// serveWriter serves the API of the writer.
func (t *term) serveWriter(ctx context.Context) error {
	if !after(ctx, t.ready) {
		return nil
	}
	server, err := api.ServeWriter(t.apiConfig(), api.WriterConfig{
		Writer: t.w,
		Now:    t.time.Now,
		Objects: objects.WriterConfig{
			Lease:     t.lease,
			Past:      t.past,
			Call:      t.calls().State,
			Consumers: t.consumers,
			Status:    t.prop.Status,
			Storage:   t.storage,
			Leases: func(ctx context.Context) ([]*coppicev1.ControllerLease, error) {
				return leases.List(ctx, t.js, t.name)
			},
			PlanLimit: t.c.PlanLimit,
			PlanTime:  t.c.PlanTime,
			Grants:    t.grants(),
		},
		Operations: operations.Config{
			Republish: t.prop.Republish,
			Answered:  t.metrics.answered,
			WarnCycle: t.warner.Cycle,
		},
		Expiry: expiry.Config{
			Find:         t.past.Find,
			Noticed:      t.noticed,
			NoticeCalls:  t.calls().NoticeCalls,
			RecentCalls:  t.recent,
			SweepNotices: t.calls().SweepNotices,
		},
	})
	if err != nil {
		return err
	}
	t.enter(phaseWriter)
	t.log.Info("this is the writer", "epoch", t.state.Checkpoint().GetEpoch(), "revision", t.state.Checkpoint().GetRevision())
	<-ctx.Done()
	t.enter(phaseStandby)
	return server.Stop()
}

// leave returns errLeave when another process is to write the realm.
func (t *term) leave(ctx context.Context) error {
	select {
	case <-t.lease.Leave():
		return errLeave
	case <-ctx.Done():
		return nil
	}
}

// measureInterval is the time between two counts of what is pending and queued.
const measureInterval = 10 * time.Second

// countShare is the part of a core that the counts of pending work use at most: one in countShare.
// A count takes long if unknown owners keep very many dependents; the metrics are updated less
// often then.
const countShare = 20

// countPending updates the metrics of pending work.
func (t *term) countPending(ctx context.Context) error {
	pending, finalizers, err := t.prop.Count(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // this process is not the writer any more
		}
		return err
	}
	t.metrics.pending(pending.GetPending(), t.time.Now())
	t.countFinalizers(ctx, finalizers)
	return nil
}

// measure updates the metrics that no commit updates.
func (t *term) measure(ctx context.Context) error {
	tick := time.NewTicker(t.c.measure)
	defer tick.Stop()
	defer t.metrics.endTerm()
	t.consumers.TakeAttempts() // those of earlier terms were counted by their writers
	var next time.Time
	for {
		if begun := time.Now(); !begun.Before(next) {
			if err := t.countPending(ctx); err != nil {
				return err
			}
			next = begun.Add(countShare * time.Since(begun))
		}
		t.metrics.queue(t.w)
		t.countWork(ctx)
		if err := t.countTripped(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// errLeave ends the writer of a realm that another process is to write.
var errLeave = errors.New("another process has fewer realms")

// located is a log whose commits are found by sequence, as the writer knows them, instead
// of by position in the stream.
type located struct {
	*eventlog.Log
	history *wholelog.Log
	state   *state.State
}

// Get returns the commit of a sequence. The error wraps eventlog.ErrCut for a commit that neither
// the stream nor the archive of the realm has, such as one of the log that the realm continues.
func (l located) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	position, err := l.state.Position(sequence)
	if err != nil {
		return nil, err
	}
	return l.history.Get(ctx, position)
}
