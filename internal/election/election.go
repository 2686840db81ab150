// Package election elects a leader among the processes of a controller, by a lease that a graph service stores.
//
// # The protocol
//
// No process needs to trust the clock of another one. All times below are fractions of the lease's ttl by the process's own
// clock since boot, and clocks may differ in rate by 6%.
//
//   - The leader renews the lease five times in a ttl. Each renewal changes the lease's revision.
//   - The term of the leader ends 0.6 after it sent the last renewal that succeeded: its context is cancelled. What the
//     leader does then has until 0.75 to end. The leader goes on renewing until that has ended, so that
//     no other process takes the lease, unless the leader cannot reach NATS.
//   - A candidate that has seen the same revision for 0.8, since it received it first, replaces that revision. It received the
//     revision after its holder sent the renewal, so the holder does not rely on it any more.
//   - A leader that stops waits until what it does has ended, and then releases the lease, which the next candidate takes at once.
//
// A graph service compares and sets: [Decide] needs no clock. Requests may be delayed, repeated or lost. Each term has a new random
// id, so that a late renewal or release of an earlier term changes nothing of a later one. At worst a late
// request delays the next leader by 0.8 of the ttl.
package election

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ErrLost is the cause of the end of a leader's context if the lease was lost, or could not be renewed in time.
var ErrLost = errors.New("the lease was lost")

const (
	// ending is the fraction of the ttl, after a renewal was sent, at which a term ends.
	ending = 0.6
	// margin is the fraction until which what the leader does must have ended.
	margin = 0.75
	// silence is the fraction after which a candidate replaces a revision: margin, and the difference that clocks may have.
	silence = 0.8
	// renewals is the number of renewals in a ttl, attempts that of attempts without a reply, and looks that of a candidate's requests.
	renewals = 5
	attempts = 10
	looks    = 15
	// longestLook is the longest time between two requests of a candidate.
	longestLook = time.Second
	// longestAttempt is the longest time that a request waits for its reply, and longestRelease that of a release, for
	// which a process waits that stops.
	longestAttempt = 5 * time.Second
	longestRelease = 2 * time.Second
)

func part(ttl time.Duration, fraction float64) time.Duration {
	return time.Duration(fraction * float64(ttl))
}

// Config is what Run needs. All fields are required.
type Config struct {
	Name  string
	TTL   time.Duration
	About string // what this process says about itself
	// Request sends a request once.
	Request func(context.Context, *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error)
	// Retryable reports whether a candidate sends a request again after an error of Request.
	Retryable func(error) bool
	// Clock is a clock that goes on while the machine is suspended.
	Clock func() time.Duration
	// OnState is called when this process begins to lead, when its term has ended, and when a candidate sees
	// another holder. It must not block.
	OnState func(State)
	// OnError is called with each error after which a request is sent again.
	OnError func(error)
}

// State is what a process knows about a lease.
type State struct {
	// Leading: this process leads.
	Leading bool
	// About is what the process that holds the lease says about itself; empty if it is not known.
	About string
	// Remaining is the time after which this candidate takes the lease, if it is not renewed until then.
	Remaining time.Duration
}

// Run waits until this process has the lease, calls lead, and releases the lease after lead has returned. It returns the
// error of lead. The context of lead ends with ctx, and when the lease is lost; in this case Run waits until
// lead has returned, ignores its error, and competes again. Run returns nil when ctx has ended, and an error if a request fails in a way that Retryable refuses.
func Run(ctx context.Context, c Config, lead func(context.Context) error) error {
	former := "" // the id of the last term, which was lost
	for {
		t, err := c.acquire(ctx, former)
		if err != nil || t == nil {
			return err
		}
		again, err := c.lead(ctx, t, lead)
		if !again {
			return err
		}
		former = t.holder
	}
}

// candidate is what a candidate knows.
type candidate struct {
	former string // an id of this process, which does not use the lease any more
	// seen is the lease that was received last, its revision for the first time at since.
	seen  *coppicev1.Lease
	since time.Duration
}

// saw records a reply, and returns the state if there is another holder.
func (x *candidate) saw(l *coppicev1.Lease, now time.Duration) (s State, changed bool) {
	if l.GetRevision() != x.seen.GetRevision() {
		x.since = now
	}
	changed = l.GetHolder() != x.seen.GetHolder()
	x.seen = l
	return State{About: l.GetAbout(), Remaining: x.remaining(now)}, changed
}

// remaining returns the time after which the candidate may replace the lease.
func (x *candidate) remaining(now time.Duration) time.Duration {
	if x.seen == nil || x.seen.GetHolder() == x.former {
		return 0
	}
	return x.since + part(time.Duration(x.seen.GetTtl())*time.Millisecond, silence) - now
}

// acquire waits until this process has the lease. It returns no term if ctx has ended.
func (c *Config) acquire(ctx context.Context, former string) (*Term, error) {
	x := candidate{former: former}
	holder := crand.Text()
	for ctx.Err() == nil {
		q := c.request(holder)
		if x.remaining(c.Clock()) <= 0 {
			q.Revision = x.seen.GetRevision()
		}
		sent := c.Clock()
		reply, err := c.send(ctx, q, longestAttempt)
		switch {
		case ctx.Err() != nil && !reply.GetHeld():
			if err != nil { // the request may have been carried out
				c.release(context.WithoutCancel(ctx), &Term{holder: holder})
			}
			return nil, nil
		case err != nil && !c.Retryable(err):
			return nil, c.errOf(err)
		case err != nil:
			c.failed(err)
		case reply.GetHeld():
			t := &Term{c: c, holder: holder, revision: reply.GetLease().GetRevision()}
			t.renewed(sent)
			return t, nil
		default:
			if s, changed := x.saw(reply.GetLease(), c.Clock()); changed {
				c.OnState(s)
			}
		}
		pause := jitter(min(c.TTL/looks, longestLook))
		if err == nil && x.seen != nil {
			pause = min(pause, max(x.remaining(c.Clock()), time.Millisecond))
		}
		sleep(ctx.Done(), pause)
	}
	return nil, nil
}

// lead calls lead while it renews the lease. again: the lease was lost.
func (c *Config) lead(ctx context.Context, t *Term, lead func(context.Context) error) (again bool, err error) {
	leading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.cancel = cancel
	// A worker may need time to return after ctx has ended, and no other process may lead until it has.
	running, returned := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { t.watch(running.Done()) })
	background.Go(func() { c.renew(running, t) })
	if ctx.Err() == nil && t.check() {
		c.OnState(State{Leading: true, About: c.About})
		err = lead(termContext{leading, t})
	}
	lost := !t.check()
	returned()
	background.Wait()
	t.leaves()
	if !t.replaced {
		c.release(context.WithoutCancel(ctx), t)
	}
	if lost && ctx.Err() == nil {
		c.failed(context.Cause(leading))
		return true, nil
	}
	return false, err
}

// renew renews the lease until ctx ends, or another process has it.
func (c *Config) renew(ctx context.Context, t *Term) {
	for wait := c.TTL / renewals; sleep(ctx.Done(), wait); {
		q := c.request(t.holder)
		q.Revision = t.revision
		sent := c.Clock()
		reply, err := c.send(ctx, q, longestAttempt)
		wait = max(sent+c.TTL/renewals-c.Clock(), time.Millisecond)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.failed(err)
			wait = min(wait, jitter(c.TTL/attempts/2))
		case !reply.GetHeld():
			t.replaced = true
			t.lose(ErrLost)
			return
		default:
			t.revision = reply.GetLease().GetRevision()
			t.renewed(sent)
		}
	}
}

// release releases the lease, so that another process need not wait. If the request fails, others wait for the ttl.
func (c *Config) release(ctx context.Context, t *Term) {
	q := c.request(t.holder)
	q.Release = true
	for range 2 {
		_, err := c.send(ctx, q, longestRelease)
		if err == nil {
			return
		}
		c.failed(err)
	}
}

func (c *Config) errOf(err error) error { return fmt.Errorf("lease %s: %w", c.Name, err) }

func (c *Config) failed(err error) { c.OnError(c.errOf(err)) }

func (c *Config) request(holder string) *coppicev1.LeaseRequest {
	return &coppicev1.LeaseRequest{Name: c.Name, Holder: holder, About: c.About, Ttl: c.TTL.Milliseconds()}
}

// send sends a request, and waits for the reply for a part of the ttl, at most for longest.
func (c *Config) send(ctx context.Context, q *coppicev1.LeaseRequest, longest time.Duration) (*coppicev1.LeaseReply, error) {
	ctx, cancel := context.WithTimeout(ctx, min(c.TTL/attempts, longest))
	defer cancel()
	return c.Request(ctx, q)
}

// jitter returns a random time between half of d and d, so that candidates do not ask in step.
func jitter(d time.Duration) time.Duration { return d - rand.N(max(d/2, 1)) }
