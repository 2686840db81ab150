package graph

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/run"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/archived"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// write runs the writer, the propagator and the API of the writer, until ctx ends, the
// lease is lost, or another writer has appended (fencing).
func (r *realm) write(ctx context.Context, l *lease.Lease) error {
	var (
		g        run.Group
		prop     *propagator.Propagator
		kinds    = r.state.Kinds()
		settings = r.state.Settings()
		stopper  api.Stopper
		ready    = make(chan struct{})
		loss     = r.loss
		resumed  = make(chan struct{}) // closed while the realm is not paused
		paused   = r.state.Realm().Paused
	)
	if !paused {
		close(resumed)
	}
	var w *writer.Writer
	w = writer.New(writer.Config{
		Realm: r.name, State: r.state, Log: located{r.events, r.history, r.state}, LogEnd: r.logEnd, NewestKey: r.keys.Newest, Loss: loss, Lease: l, MaxPayload: int(r.c.Conn.MaxPayload()),
		Now: r.time.Now, CheckClock: r.clock.Check, Begin: r.hub.Begin, Abort: r.hub.Abort, Logger: r.log, Failpoint: r.c.Failpoint,
		Ready: func() { close(ready) },
		Committed: func(c writer.Committed) {
			r.hub.Commit(c.Revision, c.Changes)
			r.metrics.committed(c)
			if c.Skipped > 0 {
				r.skipAll(c.Position-1, c.Skipped, "they came between two commits")
			}
			r.metrics.queue(w.Queued())
			prop.Notify(c.Pending)
			if c.SessionClosed {
				prop.SessionClosed()
			}
			if paused && !r.state.Realm().Paused {
				paused = false
				close(resumed)
				r.log.Info("the realm is resumed")
			}
			if k, o := r.state.Kinds(), r.state.Settings(); k != kinds || o != settings {
				kinds, settings = k, o
				prop.Reconsider()
			}
		},
	})
	r.time.NotBefore(lifecycle.Time(r.state.Checkpoint().GetTime()))
	prop = propagator.New(r.propagatorConfig(w))
	if loss != nil {
		return r.recordLoss(ctx, w, ready)
	}
	writing, stopWriting := context.WithCancel(ctx)
	g.Add(func() error { return w.Run(writing) }, func(error) { stopWriting() })

	propagating, stopPropagating := context.WithCancel(ctx)
	g.Add(func() error {
		for _, begun := range []chan struct{}{ready, resumed} {
			select {
			case <-begun:
			case <-propagating.Done():
				return nil
			}
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
		stopper, err = api.ServeWriter(r.apiConfig(), api.Writer{Writer: w, Lease: l, Republish: prop.Republish, Status: prop.Status, Answered: r.metrics.answered, WarnCycle: r.warner.Cycle, Now: r.time.Now})
		if err != nil {
			return err
		}
		r.enter(phaseWriter)
		r.log.Info("this is the writer", "epoch", r.state.Checkpoint().GetEpoch(), "revision", r.state.Checkpoint().GetRevision())
		<-serving.Done()
		r.enter(phaseStandby)
		return stopper.Stop()
	}, func(error) { stopServing() })

	leaving, stopLeaving := context.WithCancel(ctx)
	g.Add(func() error {
		select {
		case <-l.Leave():
			return errLeave
		case <-leaving.Done():
			return nil
		}
	}, func(error) { stopLeaving() })

	watching, stopWatching := context.WithCancel(ctx)
	g.Add(func() error {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			pending, err := prop.Count()
			if err != nil {
				return err
			}
			r.metrics.pending(pending.GetPending(), r.time.Now())
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

// errLeave ends the writer of a realm that another process is to write.
var errLeave = errors.New("another process has fewer realms")

// located is a log whose commits are found by sequence, as the writer knows them, instead
// of by position in the stream.
type located struct {
	*eventlog.Log
	history *archived.Log
	state   *state.State
}

// Get returns the commit of a sequence. The error wraps eventlog.ErrCut for a commit of the log
// that this realm continues.
func (l located) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	position, err := l.state.Position(sequence)
	if errors.Is(err, state.ErrNoPosition) {
		return nil, fmt.Errorf("commit %d: %w: %w", sequence, eventlog.ErrCut, err)
	}
	if err != nil {
		return nil, err
	}
	return l.history.Get(ctx, position)
}
