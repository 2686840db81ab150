package leases

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
)

// sweeper removes leases that have ended, whose holders did not release them. It is needed only when there are too many
// leases: the next candidate replaces such a lease otherwise.
type sweeper struct {
	js    jetstream.JetStream
	clock func() time.Duration
	busy  chan struct{} // has an element while a sweep runs

	ended time.Duration // when a sweep ended last
	seen  map[string]sight
}

// sight is when a revision of a lease was read first.
type sight struct {
	revision uint64
	since    time.Duration
}

// sweepPause is the time between two sweeps, each of which reads all leases.
const sweepPause = 5 * time.Second

func newSweeper(js jetstream.JetStream, clock func() time.Duration) *sweeper {
	return &sweeper{js: js, clock: clock, busy: make(chan struct{}, 1), ended: -sweepPause}
}

// sweep removes the leases that were not renewed for their ttl since an earlier sweep. Their holders do not rely on
// them any more, as those of leases that a candidate replaces. It does nothing for some seconds after a sweep.
func (w *sweeper) sweep(ctx context.Context) error {
	select {
	case w.busy <- struct{}{}:
		defer func() { <-w.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.clock()-w.ended < sweepPause {
		return nil
	}
	reader := bus.NewBucketReader(w.js, bus.ControllerBucket)
	if _, err := reader.Update(ctx); err != nil {
		return err
	}
	now, seen := w.clock(), map[string]sight{}
	for _, e := range reader.Entries() {
		first := w.seen[e.Key]
		if first.revision != e.Revision {
			first = sight{e.Revision, now}
		}
		if now-first.since < decode(e).TTL {
			seen[e.Key] = first
			continue
		}
		if err := bus.DropKey(ctx, w.js, bus.ControllerBucket, e.Key, e.Revision); err != nil {
			return err
		}
	}
	w.seen, w.ended = seen, w.clock()
	return nil
}
