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

// callStream is the stream of calls of external finalizers and agents. It implements
// propagator.Calls.
type callStream struct {
	js    jetstream.JetStream
	realm string
}

var _ propagator.Calls = callStream{}

// liveFor is the time after its last message for which a consumer without a pull request
// counts as live.
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
