package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/worker"
)

// Result says when an object is reconciled again without an error.
type Result struct {
	// RequeueAfter is the time after which the object is reconciled again, also if
	// nothing has changed. Zero: when something changes.
	RequeueAfter time.Duration
}

// controller is a Run.
type controller struct {
	c          client.Interface
	options    options
	reconciler Reconciler
	queue      *queue.Queue[Key]
	retries    *rate.Limiter
	// term is the context of Run or, with WithLeader, of this process as the leader: its Err looks at the clock.
	term context.Context

	mu       sync.Mutex
	failures map[Key]int // since the last success
}

// watch queues the keys of a source until ctx ends.
func (x *controller) watch(ctx context.Context, s *source) error {
	onError := client.OnError(func(err error) { x.options.onError(Key{}, fmt.Errorf("watch %s: %w", s.resource, err)) })
	for ctx.Err() == nil {
		s.begin()
		events := x.c.Resource(s.resource, x.options.namespace).Watch(ctx, client.LabelSelector(s.selector), onError)
		for e, err := range events {
			if errors.Is(err, client.ErrExpired) {
				onError(err)
				break // watch again, all objects first
			}
			if err != nil {
				return fmt.Errorf("watch %s: %w", s.resource, err)
			}
			x.add(s.event(e))
		}
	}
	return nil
}

// add queues keys for now.
func (x *controller) add(keys []Key) {
	x.queue.Update(func(tx queue.Tx[Key]) {
		for _, k := range keys {
			tx.Add(k, 0)
		}
	})
}

// resyncs queues all known objects after each period until ctx ends.
func (x *controller) resyncs(ctx context.Context, s *source) error {
	tick := time.NewTicker(x.options.resync)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			x.add(s.all())
		}
	}
}

// work reconciles keys, one at a time, until ctx ends.
func (x *controller) work(ctx context.Context) error {
	for ctx.Err() == nil {
		batch, _ := x.queue.Get(ctx, 1) // empty if ctx has ended
		for _, item := range batch.Items {
			if x.term.Err() != nil {
				break
			}
			x.reconcile(ctx, item.Key)
		}
		x.queue.Done(batch)
	}
	return nil
}

// reconcile reconciles a key, and queues it for later if need be.
func (x *controller) reconcile(ctx context.Context, key Key) {
	result, err := x.reconciler.Reconcile(ctx, key)
	again := result.RequeueAfter
	switch {
	case err == nil:
		x.succeeded(key)
	case ctx.Err() != nil:
		return
	case worker.IsPermanent(err):
		x.options.onError(key, err)
		x.succeeded(key) // a change begins with the shortest pause
		again = 0
	default:
		x.options.onError(key, err)
		again = x.pause(key)
	}
	if again > 0 {
		x.queue.AddAt(key, 0, time.Now().Add(again))
	}
}

func (x *controller) succeeded(key Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.failures, key)
}

// pause counts a failure, and returns the pause after it.
func (x *controller) pause(key Key) time.Duration {
	x.mu.Lock()
	n := x.failures[key]
	x.failures[key] = n + 1
	x.mu.Unlock()
	pause := x.options.backoff.Min
	for ; n > 0 && pause < x.options.backoff.Max; n-- {
		pause *= 2
	}
	pause = min(pause, x.options.backoff.Max)
	if r := x.retries.Reserve(); r.OK() {
		pause = max(pause, r.Delay())
	}
	return max(pause, time.Nanosecond)
}
