package graph

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/propagator"
)

// callStream is the stream of calls of external finalizers and agents, as the
// propagator looks at it.
type callStream struct {
	js    jetstream.JetStream
	realm string
}

var _ propagator.Calls = callStream{}

// liveFor is how long after its last message a consumer counts as live that
// asks for nothing at the moment.
const liveFor = time.Minute

// Live implements propagator.Calls.
func (s callStream) Live(ctx context.Context) (map[string]bool, error) {
	stream, err := s.js.Stream(ctx, bus.FinalizeStream(s.realm))
	if err != nil {
		return nil, fmt.Errorf("stream of calls: %w", err)
	}
	live := map[string]bool{}
	list := stream.ListConsumers(ctx)
	for c := range list.Info() {
		recent := c.Delivered.Last != nil && time.Since(*c.Delivered.Last) < liveFor
		live[c.Name] = c.NumWaiting > 0 || c.PushBound || recent
	}
	return live, list.Err()
}

// Bounds of a sweep: how many more calls than are counted are in the stream
// before one is worth its cost, and how many it removes.
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
	if surplus := int(stream.CachedInfo().State.Msgs) - counted; surplus < max(sweepSlack, counted/4) {
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
