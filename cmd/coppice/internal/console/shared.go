package console

import (
	"context"
	"sync"
	"time"
)

// shared is a value that a function keeps up to date while something needs it, and for a time after that. What needs it
// again later gets another value.
type shared[T any] struct {
	begin  func() T
	run    func(ctx context.Context, value T)
	linger time.Duration

	mu     sync.Mutex
	value  T
	needed int
	cancel context.CancelFunc // of the run; nil without one
	timer  *time.Timer        // ends the run that lingers
}

// join returns the value, and begins the run unless there is one. The run ends after leave was called by all who have
// joined, or with ctx, which is the same for all.
func (s *shared[T]) join(ctx context.Context) (value T, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.needed++
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.cancel == nil {
		var running context.Context
		running, s.cancel = context.WithCancel(ctx) //nolint:gosec // leave calls it
		s.value = s.begin()
		go s.run(running, s.value)
	}
	return s.value, sync.OnceFunc(s.leave)
}

func (s *shared[T]) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.needed--; s.needed > 0 {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(s.linger, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer != timer {
			return // it was needed again
		}
		s.cancel()
		var none T
		s.cancel, s.timer, s.value = nil, nil, none
	})
	s.timer = timer
}

// now returns the value, the zero value without a run.
func (s *shared[T]) now() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}
