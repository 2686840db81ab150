// Package clock compares the wall clock of a graph service with the time of the NATS
// server, and provides the time of a realm.
//
// A commit has a time, from which deadlines, grace periods and timestamps of objects
// derive. A writer whose wall clock is wrong must not commit: commit times never decrease,
// so all later commits would be wrong too. Between two comparisons a clock since boot
// measures how far the wall clock should have advanced, so that a step of the wall clock is
// noticed at once.
package clock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/boottime"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// SinceBoot is boottime.Now.
func SinceBoot() time.Duration { return boottime.Now() }

// DefaultLimit is the default maximum difference between the wall clock and the NATS
// server's time.
const DefaultLimit = 10 * time.Second

// Config is what a Clock needs.
type Config struct {
	// Wall is the wall clock; time.Now if nil.
	Wall func() time.Time
	// Elapsed is a clock that changes of the wall clock do not affect; SinceBoot if nil.
	Elapsed func() time.Duration
	// Server returns the NATS server's time, at some moment of the call.
	Server func(ctx context.Context) (time.Time, error)
	// Limit is the maximum difference between the wall clock and the server's time;
	// DefaultLimit if zero.
	Limit time.Duration
}

// Clock is a wall clock that is compared with the NATS server's time. Its methods
// are safe for concurrent use.
type Clock struct {
	c    Config
	kick chan struct{}

	mu       sync.Mutex
	compared bool
	// The server's time at the moment at, which is at most slack earlier or later.
	server time.Time
	at     time.Duration
	slack  time.Duration
}

// New returns a Clock that has not been compared yet. Check fails until Run has compared
// it.
func New(c Config) *Clock {
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Elapsed == nil {
		c.Elapsed = SinceBoot
	}
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	return &Clock{c: c, kick: make(chan struct{}, 1)}
}

// SkewError is returned if the wall clock differs too much from the NATS server's time, or
// has not been compared with it yet.
type SkewError struct {
	// Ahead is how far the wall clock is ahead, at least; negative if it is behind;
	// zero if that is not known yet.
	Ahead time.Duration
	Limit time.Duration
}

func (e *SkewError) Error() string {
	switch {
	case e.Ahead > 0:
		return fmt.Sprintf("the clock of this machine is %v ahead of the NATS server's, more than %v; synchronize both", e.Ahead.Round(time.Millisecond), e.Limit)
	case e.Ahead < 0:
		return fmt.Sprintf("the clock of this machine is %v behind the NATS server's, more than %v; synchronize both", (-e.Ahead).Round(time.Millisecond), e.Limit)
	}
	return "the clock of this machine was not compared with the NATS server's yet"
}

// Check returns nil if the wall clock is within Limit of the server's time. Otherwise it
// requests another comparison and returns a *SkewError.
func (c *Clock) Check() error {
	_, err := c.read()
	if err != nil {
		c.Compare()
	}
	return err
}

// Now returns the wall clock's time if that is within Limit of the server's time, and the
// server's time otherwise. Before the first comparison it returns the wall clock's time.
func (c *Clock) Now() time.Time {
	now, _ := c.read()
	return now
}

func (c *Clock) read() (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The wall clock alone: a monotonic reading would hide its steps.
	wall := c.c.Wall().Round(0)
	if !c.compared {
		return wall, &SkewError{Limit: c.c.Limit}
	}
	server := c.server.Add(c.c.Elapsed() - c.at)
	ahead := wall.Sub(server)
	switch {
	case ahead > c.slack+c.c.Limit:
		return server, &SkewError{Ahead: ahead - c.slack, Limit: c.c.Limit}
	case ahead < -c.slack-c.c.Limit:
		return server, &SkewError{Ahead: ahead + c.slack, Limit: c.c.Limit}
	}
	return wall, nil
}

// Ahead returns how far the wall clock is ahead of the server's time, negative if it is behind. ok is false before the
// first comparison.
func (c *Clock) Ahead() (ahead time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.c.Wall().Round(0).Sub(c.server.Add(c.c.Elapsed() - c.at)), c.compared
}

// Compare requests a comparison from Run. It does not wait for it.
func (c *Clock) Compare() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// Times of Run.
const (
	interval    = 10 * time.Second       // between comparisons
	firstPause  = 50 * time.Millisecond  // between attempts, and between comparisons that were asked for
	longestWait = 500 * time.Millisecond // the longest round trip of a comparison that counts: it bounds the slack
)

// Run compares the clock with the server's time at intervals, until ctx ends.
func (c *Clock) Run(ctx context.Context) {
	for {
		pause := interval
		if err := c.compare(ctx); err != nil {
			pause = 4 * firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(firstPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-c.kick:
		case <-time.After(pause):
		}
	}
}

func (c *Clock) compare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	sent := c.c.Elapsed()
	server, err := c.c.Server(ctx)
	received := c.c.Elapsed()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compared, c.server, c.slack = true, server, (received-sent)/2
	c.at = sent + c.slack
	return nil
}

// Realm is the clock of a realm, from which commits take their times. Its time never
// decreases and never stops. If the newest commit is later than the clock, because the
// clocks of all machines were ahead when it was appended, the time advances from there at
// half speed until the clock has caught up. Its methods are safe for concurrent use.
type Realm struct {
	clock *Clock

	mu   sync.Mutex
	base lifecycle.Time // the time of the realm at some moment
	at   time.Duration  // that moment, by Config.Elapsed
}

// NewRealm returns the clock of a realm.
func (c *Clock) NewRealm() *Realm { return &Realm{clock: c} }

// NotBefore makes sure that Now never returns a time before t, the time of a commit of the
// realm.
func (r *Realm) NotBefore(t lifecycle.Time) { r.now(t) }

// Now returns the time of the realm.
func (r *Realm) Now() time.Time { return r.now(lifecycle.TimeOf(r.clock.Now())).Time() }

func (r *Realm) now(least lifecycle.Time) lifecycle.Time {
	elapsed := r.clock.c.Elapsed()
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.base.Add(max(0, elapsed-r.at) / 2)
	if t < least {
		r.base, r.at = least, elapsed
		return least
	}
	return t
}
