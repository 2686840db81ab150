package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/api/objects"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// callStream is the stream of calls of external finalizers, agents and expiry policies. It implements
// propagator.Calls.
type callStream struct {
	js        jetstream.JetStream
	realm     string
	consumers *consumers.Observer
	state     *state.State
	recent    *propagator.RecentCalls
	now       func() time.Time
}

var _ propagator.Calls = callStream{}

func (r *following) calls() callStream {
	return callStream{r.js, r.name, r.consumers, r.state, r.recent, r.time.Now}
}

// Live implements propagator.Calls.
func (s callStream) Live(ctx context.Context) (map[string]bool, error) { return s.consumers.Live(ctx) }

// State returns whether a program receives the calls of a finalizer, and works on the call for
// one object.
func (s callStream) State(ctx context.Context, call bus.Finalize) (is objects.CallState, err error) {
	state, info, err := s.consumers.Of(ctx, bus.FinalizerDurable(call.Finalizer))
	if err != nil || info == nil {
		return is, err
	}
	is.Live = state.Live
	if !is.Live { // a call that is delivered was left behind by a program that is gone
		return is, nil
	}
	c, err := s.consumers.Status(ctx, call.Subject(), &state)
	if err != nil {
		return is, fmt.Errorf("call of finalizer %s: %w", call.Finalizer, err)
	}
	if c.GetDelivered() {
		is.Working = c.GetCall()
	}
	return is, nil
}

// NoticeCalls returns a collector of calls about notices to a program. It has no room until the program
// has asked for calls, so that calls which no program takes do not fill the stream.
func (s callStream) NoticeCalls(ctx context.Context, name string) (*propagator.NoticeCalls, error) {
	room, age := 0, time.Time{}
	c, err := s.js.Consumer(ctx, bus.FinalizeStream(s.realm), bus.ExpiryDurable(name))
	switch {
	case err == nil:
		age = c.CachedInfo().Created
		// The consumer counts what was published a little later than the stream has it.
		stream, err := s.js.Stream(ctx, bus.FinalizeStream(s.realm))
		if err != nil {
			return nil, err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(bus.ExpireFilter(s.realm, name)))
		if err != nil {
			return nil, err
		}
		room = propagator.MaxNoticeCalls - len(info.State.Subjects)
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, err
	}
	return propagator.NewNoticeCalls(s.js, s.recent, s.realm, name, room, age), nil
}

// Bounds of a sweep: how many calls more than the propagator counts must be in the stream
// before a sweep begins, and the maximum number of calls that it removes.
const (
	sweepSlack = 100
	sweepMost  = 10_000
)

// Sweep implements propagator.Calls.
func (s callStream) Sweep(ctx context.Context, counted int, needed func(u uid.UID, durable string) bool) error {
	stream, err := s.js.Stream(ctx, bus.FinalizeStream(s.realm))
	if err != nil {
		return fmt.Errorf("stream of calls: %w", err)
	}
	surplus := func(notices int) bool {
		return int(stream.CachedInfo().State.Msgs)-notices-counted >= max(sweepSlack, counted/4)
	}
	if !surplus(0) {
		return nil
	}
	about, err := stream.Info(ctx, jetstream.WithSubjectFilter(bus.ExpireCalls(s.realm)))
	if err != nil {
		return fmt.Errorf("stream of calls: %w", err)
	}
	if !surplus(len(about.State.Subjects)) { // SweepNotices removes those
		return nil
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return fmt.Errorf("stream of calls: %w", err)
	}
	removed := 0
	for subject := range info.State.Subjects {
		text, durable, ok := bus.ParseCall(subject)
		if !ok {
			continue
		}
		u, err := uid.Parse(text)
		if err != nil || needed(u, durable) {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return fmt.Errorf("stream of calls: %w", err)
		}
		if removed++; removed >= sweepMost {
			return nil
		}
	}
	return nil
}

// SweepNotices removes from the stream the calls about notices that cannot be answered any more, or whose
// policies no longer name the program.
func (s callStream) SweepNotices(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, bus.FinalizeStream(s.realm))
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(bus.ExpireCalls(s.realm)))
	if err != nil {
		return err
	}
	if len(info.State.Subjects) == 0 {
		return nil
	}
	snap := s.state.Snapshot()
	defer snap.Close()
	names, now := calledBy(snap), max(lifecycle.TimeOf(s.now()), snap.Time()) // the last commit may be old
	removed := 0
	for subject := range info.State.Subjects {
		text, name, ok := bus.ParseExpire(subject)
		u, err := uid.Parse(text)
		if !ok || err != nil || removed >= sweepMost {
			continue
		}
		needed := slices.ContainsFunc(snap.Notices(u), func(n lifecycle.Notice) bool { return names[n.Policy] == name && n.Calls(now) })
		if snap.Err() != nil {
			return snap.Err()
		}
		if needed {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return err
		}
		removed++
	}
	return nil
}

// calledBy returns the programs that expiry policies call.
func calledBy(snap *state.Snapshot) map[uid.UID]string {
	names := map[uid.UID]string{}
	kind := snap.Kinds().Of(lifecycle.Group, expirypolicy.Kind)
	if kind == nil {
		return names
	}
	snap.Nodes(kind, "", state.NameCursor{}, func(n *lifecycle.Node) bool {
		body := snap.Body(n)
		if snap.TakeUnreadable() == nil {
			if p, err := expirypolicy.Parse(body.GetSpec()); err == nil {
				names[n.UID] = p.Call
			}
		}
		return true
	})
	return names
}
