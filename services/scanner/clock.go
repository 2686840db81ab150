package scanner

import (
	"log/slog"
	"sync"
	"time"
)

// steady is a wall clock that follows steps ahead only when they have lasted. An object must not
// be deleted early because the wall clock was ahead for some time. So the clock advances at most
// at the rate of the elapsed time; steps back, which cannot cause an early deletion, have effect at
// once. It is safe for concurrent use.
type steady struct {
	wall    func() time.Time
	elapsed func() time.Duration
	log     *slog.Logger

	mu    sync.Mutex
	began bool
	base  time.Time     // the time of this clock at some moment
	at    time.Duration // that moment, by elapsed
	// stepped is when the wall clock was found to be ahead, by elapsed, if ahead is set, and gap
	// the least by which it has been ahead since.
	ahead   bool
	stepped time.Duration
	gap     time.Duration
}

const (
	// The clock may advance faster than the elapsed time by 1/drift of it: NTP slews a clock by
	// at most 1/2000.
	drift = 100
	// settle is how long a step ahead must last before the clock follows it. A clock that was
	// wrong when the machine started is corrected by such a step.
	settle = time.Hour
	// noticed is the smallest step that is logged, and followed when it has lasted.
	noticed = 2 * time.Second
)

func newSteady(wall func() time.Time, elapsed func() time.Duration, log *slog.Logger) *steady {
	return &steady{wall: wall, elapsed: elapsed, log: log}
}

// now returns the time of the clock. It is never later than the wall clock.
func (c *steady) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, elapsed := c.wall().Round(0), c.elapsed() // without the monotonic reading, which hides steps
	passed := elapsed - c.at
	latest := c.base.Add(passed + passed/drift)
	switch {
	case !c.began || !wall.After(latest):
		c.began, c.base, c.at, c.ahead = true, wall, elapsed, false
		return wall
	case wall.Sub(latest) < noticed:
		return latest
	case !c.ahead || wall.Sub(latest) > c.gap+noticed: // a step, or another one
		c.ahead, c.stepped, c.gap = true, elapsed, wall.Sub(latest)
		c.log.Warn("the wall clock was set ahead; until this has lasted, objects expire as if it had not been set",
			"by", wall.Sub(latest).Round(time.Second).String(), "for", settle.String())
	case elapsed-c.stepped >= settle:
		c.base, c.at, c.ahead = wall, elapsed, false
		return wall
	}
	c.gap = min(c.gap, wall.Sub(latest))
	return latest
}
