package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Term is one term of a leader, which ends when the leader does not rely on its lease any more.
type Term struct {
	c      *Config
	holder string
	cancel context.CancelCauseFunc
	// Only renew uses these: the revision of the lease, and whether another process has the lease.
	revision uint64
	replaced bool
	left     bool // OnState was called with the end of the term; only watch uses it

	mu   sync.Mutex
	over bool
	// until is when the term ends unless the lease is renewed, and limit when another process may take the lease.
	until, limit time.Duration
}

// renewed records that a request which was sent at a time has renewed the lease. A term that is over stays over, but
// another process takes the lease later.
func (t *Term) renewed(sent time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = max(t.until, sent+part(t.c.TTL, ending))
	t.limit = max(t.limit, sent+part(t.c.TTL, margin))
}

// check reports whether the term lasts, by the clock, and ends it if not.
func (t *Term) check() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over && t.c.Clock() >= t.until {
		t.end(fmt.Errorf("%w: it was not renewed for %v", ErrLost, part(t.c.TTL, ending)))
	}
	return !t.over
}

// lose ends the term.
func (t *Term) lose(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.end(why)
	}
}

// end ends the term. t.mu is locked.
func (t *Term) end(why error) {
	t.over = true
	t.cancel(why)
}

// remaining returns the time until the term ends, and until another process may take the lease.
func (t *Term) remaining() (until, limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.c.Clock()
	return t.until - now, t.limit - now
}

// leaves calls OnState at the end of the term, once.
func (t *Term) leaves() {
	if !t.left {
		t.left = true
		t.c.OnState(State{})
	}
}

// watch ends the term when its time is over, and reports that the leader's function has not returned when another
// process may take the lease. It returns when returned is closed.
func (t *Term) watch(returned <-chan struct{}) {
	for reported := false; ; {
		lasts := t.check()
		until, limit := t.remaining()
		wait := until
		if !lasts {
			t.leaves()
			wait = limit
			if limit <= 0 && !reported {
				reported = true
				t.c.failed(errOverstays)
			}
			if reported {
				wait = longestWait
			}
		}
		if !sleep(returned, min(max(wait, time.Millisecond), longestWait)) {
			return
		}
	}
}

var errOverstays = errors.New("the lease was lost, and what this process does as the leader has not ended: another process may lead by now")

// longestWait is the longest time between two looks at the clock: timers stop while a machine is suspended.
const longestWait = time.Second

// sleep waits, and reports whether it has waited for the time, and not until done was closed.
func sleep(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

// termContext is the context of a term. Its Err looks at the clock: after a stop of the process, timers
// have not yet ended the context.
type termContext struct {
	context.Context
	t *Term
}

// termKey is the key of the term in the values of its context.
type termKey struct{}

func (c termContext) Err() error {
	c.t.check()
	return c.Context.Err()
}

func (c termContext) Value(key any) any {
	if key == (termKey{}) {
		return c.t
	}
	return c.Context.Value(key)
}

// TermOf returns the term from whose context ctx derives; nil if it is none.
func TermOf(ctx context.Context) *Term {
	t, _ := ctx.Value(termKey{}).(*Term)
	return t
}

// With returns a context for a request in a term, of which Check knows. It does not end with the term. The term may be nil.
func With(ctx context.Context, t *Term) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, termKey{}, t)
}

// Check returns an error if ctx derives from the context of a leader whose term is over by the clock, although ctx may
// not have ended yet.
func Check(ctx context.Context) error {
	if t := TermOf(ctx); t != nil && !t.check() {
		return ErrLost
	}
	return nil
}
