// Package admission bounds the number of concurrent requests, in all and for each user, so
// that one user cannot use all places. It bounds them for one realm, and for all realms of a
// process together.
package admission

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Why there is no place.
var (
	// ErrFull: all places, or those of the user, are taken.
	ErrFull = errors.New("all places are taken")
	// ErrShared: the places that the realms of the process share are taken, or the realm has its
	// share of them.
	ErrShared = errors.New("all places of the process are taken")
)

// Limiter has a limited number of places. It is safe for concurrent use. A nil Limiter has
// no limit.
type Limiter struct {
	total, each int
	fair        bool     // see NewShared
	shared      *Limiter // see Within; nil for none
	realm       string   // the user of shared

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

// NewShared returns a Limiter for the realms of a process, which are its users.
//
// A realm gets a further place only while more places are free than it has. So one realm has
// at most half of the places (rounded up), however many it asks for, and n such realms get about
// total/(n+1) each: some places stay free for a realm that has none. Where so many realms are busy
// that all places are taken, a place that is released goes to a realm that has none, before any
// other realm gets a second one.
func NewShared(total int) *Limiter {
	l := New(total, total)
	l.fair = true
	return l
}

// Within has each place of l, which is a realm's, also take one of shared, and returns l. It must
// be called before l is used. shared may be nil.
func (l *Limiter) Within(shared *Limiter, realm string) *Limiter {
	l.shared, l.realm = shared, realm
	return l
}

// Try takes a place for a user. If there is none, it returns ErrFull or ErrShared.
func (l *Limiter) Try(user string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	ok := l.take(user)
	l.mu.Unlock()
	if !ok {
		return ErrFull
	}
	if l.shared.Try(l.realm) != nil {
		l.release(user)
		return ErrShared
	}
	return nil
}

// Acquire takes a place for a user. If none is free, it waits, and returns the error of ctx
// if that ends first; it wraps ErrShared as well if places of the process are missing. Places are
// given in the order of the calls, except that users who have all their places are passed over.
func (l *Limiter) Acquire(ctx context.Context, user string) error {
	if l == nil {
		return nil
	}
	if err := l.acquire(ctx, user); err != nil {
		return err
	}
	if err := l.shared.Acquire(ctx, l.realm); err != nil {
		l.release(user)
		return fmt.Errorf("%w: %w", ErrShared, err)
	}
	return nil
}

// acquire takes a place of l alone.
func (l *Limiter) acquire(ctx context.Context, user string) error {
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
	l.shared.Release(l.realm)
	l.release(user)
}

// release releases a place of l alone.
func (l *Limiter) release(user string) {
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
	free := l.total - l.used
	if free <= 0 || l.by[user] >= l.each || l.fair && l.by[user] >= free {
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
