// Package admission bounds the number of concurrent requests, in all and for each user, so
// that one user cannot use all places.
package admission

import (
	"container/list"
	"context"
	"sync"
)

// Limiter has a limited number of places. It is safe for concurrent use. A nil Limiter has
// no limit.
type Limiter struct {
	total, each int

	mu      sync.Mutex
	used    int
	by      map[string]int // users with places
	waiting list.List      // of *waiter, the longest first
}

type waiter struct {
	user    string
	granted chan struct{} // closed when it has a place
}

// New returns a Limiter with total places, of which each user can have at most each.
func New(total, each int) *Limiter {
	return &Limiter{total: total, each: min(each, total), by: map[string]int{}}
}

// Try takes a place for a user, and reports whether there was one.
func (l *Limiter) Try(user string) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(user)
}

// Acquire takes a place for a user. If none is free, it waits, and returns the error of ctx
// if that ends first. Places are given in the order of the calls, except that users who
// have all their places are passed over.
func (l *Limiter) Acquire(ctx context.Context, user string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if l.take(user) {
		l.mu.Unlock()
		return nil
	}
	w := &waiter{user: user, granted: make(chan struct{})}
	e := l.waiting.PushBack(w)
	l.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.granted: // at the same moment
		l.put(user)
	default:
		l.waiting.Remove(e)
	}
	return ctx.Err()
}

// Release releases a place that Try or Acquire took.
func (l *Limiter) Release(user string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(user)
}

// Used returns the number of places that are taken, in all and by a user.
func (l *Limiter) Used(user string) (total, its int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used, l.by[user]
}

// Limits returns the number of places, in all and for each user.
func (l *Limiter) Limits() (total, each int) { return l.total, l.each }

func (l *Limiter) take(user string) bool {
	if l.used >= l.total || l.by[user] >= l.each {
		return false
	}
	l.used++
	l.by[user]++
	return true
}

func (l *Limiter) put(user string) {
	l.used--
	if l.by[user]--; l.by[user] == 0 {
		delete(l.by, user)
	}
	for e := l.waiting.Front(); e != nil && l.used < l.total; {
		next := e.Next()
		if w := e.Value.(*waiter); l.take(w.user) {
			l.waiting.Remove(e)
			close(w.granted)
		}
		e = next
	}
}
