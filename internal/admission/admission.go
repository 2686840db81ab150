// Package admission bounds how much is done at once: in all, and for each user, so
// that one user cannot take the places of all others.
package admission

import (
	"container/list"
	"context"
	"sync"
)

// Limiter hands out places. It is safe for concurrent use. A nil Limiter always has
// one.
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

// New returns a Limiter of so many places in all, and for each user.
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

// Acquire takes a place for a user. Without a free one it waits, until ctx ends; of
// those that wait and may have a place, the first to come gets it.
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

// Release gives a place back that Try or Acquire took.
func (l *Limiter) Release(user string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(user)
}

// Used is how many places are taken in all, and by a user.
func (l *Limiter) Used(user string) (total, its int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used, l.by[user]
}

// Limits are how many places there are in all, and for each user.
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
