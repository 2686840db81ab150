package graph

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/policies"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

func (r *following) propagatorConfig(w *writer.Writer) propagator.Config {
	return propagator.Config{
		Realm: r.name, State: r.state, JS: r.js, Now: r.time.Now, Log: r.log, Failpoint: r.c.Failpoint,
		Tracer: tracing.Tracer(r.c.TracerProvider),
		Queued: r.queued, Parked: r.parked, Calls: r.calls(), Limits: r.c.CallLimits,
		Stuck: func(ctx context.Context, snap *state.Snapshot, n *lifecycle.Node, since lifecycle.Time) {
			r.warner.Stuck(snap, n, since, r.stuck.states(ctx, snap, n))
		}, StuckAfter: r.c.StuckAfter,
		Unpublished: func(snap *state.Snapshot, n *lifecycle.Node, err error) { r.warner.Unpublished(snap, n, err) },
		Unblock: func(ctx context.Context, cycle []uid.UID, note string) (bool, error) {
			return unblock(ctx, w, cycle, note)
		},
		Released: func(snap *state.Snapshot, n *lifecycle.Node, cycle string) { r.warner.Released(snap, n, cycle) },
		Crowded: func(snap *state.Snapshot, n *lifecycle.Node, dependents uint64, since lifecycle.Time) {
			r.warner.Crowded(snap, n, dependents, since)
		}, CrowdedAfter: r.c.CrowdedAfter,
		PodsLate: func(snap *state.Snapshot, n *lifecycle.Node) { r.warner.PodsLate(snap, n) },
		Protected: func(snap *state.Snapshot, n *lifecycle.Node) {
			r.warner.Protected(snap, n, snap.ProtectedBelow(n, lifecycle.MaxProtectedNamed, nil))
		},
	}
}

// unblock has the writer break a cycle of objects that wait for each other.
func unblock(ctx context.Context, w *writer.Writer, cycle []uid.UID, note string) (bool, error) {
	reply, err := w.Do(ctx, &writer.Request{Actor: bus.RoleGraph, Verb: verbUnblock, Note: note, Work: &command.Unblock{Cycle: cycle}})
	if err != nil {
		return false, err
	}
	return reply.(*coppicev1.UnblockReply).GetUnblocked() > 0, nil
}

// coverStep has the writer decide a step of the walk of a protection policy.
func coverStep(ctx context.Context, w *writer.Writer, s policies.Step) error {
	_, err := w.Do(ctx, &writer.Request{
		Actor: bus.RoleGraph, Verb: verbCover, Work: command.NewCover(s.Policy, s.From, s.To, s.Objects),
	})
	return err
}

// walkPolicies does the walks of protection policies until ctx ends. A step that the writer
// refuses now is done later.
func (r *following) walkPolicies(ctx context.Context, w *policies.Walker) error {
	for {
		err := w.Run(ctx)
		var refused *lifecycle.Error
		if ctx.Err() != nil || !errors.As(err, &refused) {
			return err
		}
		r.log.Warn("a protection policy cannot be applied now; trying again", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// verbCover is what the log calls the steps of walks of protection policies.
const verbCover = "cover"

// verbUnblock is what the log calls the propagator's proposals.
const verbUnblock = "unblock"

// countWork counts the messages of work that NATS reports within 2 s.
func (r *following) countWork(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	defer r.countParked(ctx)
	stream, err := r.js.Stream(limited, bus.WorkStream(r.name))
	if ctx.Err() != nil {
		return // the term ends
	}
	if err == nil && leaderless(stream.CachedInfo().Cluster) {
		err = errors.New("no NATS server leads it")
	}
	r.workAvailable(err)
	if err != nil {
		return
	}
	for _, queue := range []string{bus.QueueDirty, bus.QueueOrphan, bus.QueueFinish, bus.QueueDrain} {
		if stream.CachedInfo().State.Msgs == 0 { // one request instead of four, while the realm is idle
			r.metrics.working(queue, 0)
		} else if n, err := r.queued(limited, queue); err == nil {
			r.metrics.working(queue, n)
		}
	}
}

// countParked counts the parked messages that NATS reports within 2 s.
func (r *following) countParked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if parked, err := r.js.Stream(ctx, bus.ParkedStream(r.name)); err == nil {
		r.metrics.parks(parked.CachedInfo().State.Msgs)
	}
}

// workAvailable notes whether the work stream answers, and logs each change. Without it no work reaches processors
// and finalizers services, and commands are committed nevertheless.
func (r *following) workAvailable(err error) {
	was := r.workless
	r.workless = err != nil
	r.metrics.workAvailable(err == nil)
	switch {
	case err != nil && !was:
		r.log.Warn("the work stream does not answer: cascades wait until it does; NATS must have room for it, and a leader", "stream", bus.WorkStream(r.name), "error", err)
	case err == nil && was:
		r.log.Info("the work stream answers again", "stream", bus.WorkStream(r.name))
	}
}

// queued is how many messages wait in a queue, or are with a worker.
func (r *following) queued(ctx context.Context, queue string) (uint64, error) {
	for _, c := range bus.WorkConsumers(r.name) {
		if c.FilterSubject != bus.WorkSubject(r.name, queue) {
			continue
		}
		consumer, err := r.js.Consumer(ctx, bus.WorkStream(r.name), c.Durable)
		if err != nil {
			return 0, err
		}
		info := consumer.CachedInfo()
		return info.NumPending + uint64(info.NumAckPending), nil
	}
	return 0, fmt.Errorf("no queue %q", queue)
}

// parked reports whether the call of an external finalizer is parked.
func (r *withLog) parked(ctx context.Context, subject string) (bool, error) {
	_, err := r.parkedStream.GetLastMsgForSubject(ctx, bus.ParkedSubject(r.name, subject, 0))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return err == nil, err
}

// leaderless reports whether a stream has no leader, and thus stores no messages. A server on its own names no cluster.
func leaderless(c *jetstream.ClusterInfo) bool { return c != nil && c.Name != "" && c.Leader == "" }
