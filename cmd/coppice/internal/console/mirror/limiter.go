package mirror

import (
	"sync"
	"time"
)

// Limiter lets messages through, at most one in an interval. It is safe for concurrent use.
type Limiter struct {
	interval time.Duration
	now      func() time.Time

	mu   sync.Mutex
	next time.Time
}

// NewLimiter returns a limiter. now is its clock.
func NewLimiter(interval time.Duration, now func() time.Time) *Limiter {
	return &Limiter{interval: interval, now: now}
}

// Wait returns 0 if a message may be sent now, and counts it as sent. Otherwise it returns how long to wait before the
// next call.
func (l *Limiter) Wait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if d := l.next.Sub(now); d > 0 && d <= l.interval { // longer if the clock was set back
		return d
	}
	l.next = now.Add(l.interval)
	return 0
}
