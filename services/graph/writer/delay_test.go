package writer

import (
	"testing"
	"time"
)

// delayed is a commitDelay with the clock of a test.
type delayed struct {
	*testing.T
	commitDelay
	now    time.Time
	queued int
}

func newDelayed(t *testing.T, append time.Duration) *delayed {
	t.Helper()
	t.Parallel()
	g := &delayed{T: t, commitDelay: newCommitDelay(), now: time.Now()}
	g.quick = append
	return g
}

// startDefault starts the delay after a commit of 100 callers whose append took as long as they usually do.
func (g *delayed) startDefault() { g.start(g.now, g.quick, g.queued, 100) }

// came lets commands arrive, after a while.
func (g *delayed) came(after time.Duration, callers int) {
	g.now = g.now.Add(after)
	g.queued += callers
}

func (g *delayed) wants(waits bool) {
	g.Helper()
	if got := g.waits(g.now, g.queued); got != waits {
		g.Errorf("waits: %t, want %t", got, waits)
	}
}

// A commit is delayed until almost all callers of the last one have sent a command.
func TestDelay(t *testing.T) {
	g := newDelayed(t, 4*time.Millisecond)
	g.came(0, 1000)
	g.wants(false)
	g.startDefault()
	g.wants(true)
	g.came(time.Millisecond, 87)
	g.wants(true)
	g.came(0, 1)
	g.wants(false)
	g.startDefault()
	g.came(0, 200)
	g.wants(false)
}

// The commit of a single caller is not delayed, however many commands it sends.
func TestNoDelayForOneCaller(t *testing.T) {
	g := newDelayed(t, 4*time.Millisecond)
	for range 100 {
		g.start(g.now, g.quick, g.queued, 1)
		g.came(0, 1)
		g.wants(false)
	}
}

// The delay is at most half of the time that an append takes.
func TestDelayIsBounded(t *testing.T) {
	g := newDelayed(t, 4*time.Millisecond)
	g.startDefault()
	g.came(2*time.Millisecond-1, 60)
	g.wants(true)
	g.came(1, 0)
	g.wants(false)
	g.startDefault()
	g.wants(true) // most have come
}

// If appends are fast, commits are not delayed.
func TestDelaysSlowAppends(t *testing.T) {
	g := newDelayed(t, slowAppend-1)
	g.startDefault()
	g.wants(false)
	for range 100 {
		g.start(g.now, 2*slowAppend, g.queued, 100)
	}
	g.wants(true)
	for range 2 { // an append that waits for a core is longer, none is shorter than the sync
		g.start(g.now, slowAppend/4, g.queued, 100)
	}
	g.wants(false)
}

// A fast disk does not count as slow because a server was unavailable for a while, and no
// commit is delayed for that long.
func TestDelayAfterStall(t *testing.T) {
	g := newDelayed(t, slowAppend/10)
	g.start(g.now, time.Minute, g.queued, 100)
	g.wants(false)
	for range 1000 {
		g.start(g.now, time.Minute, g.queued, 100)
	}
	g.wants(true)
	g.came(maxCommitDelay, 0)
	g.wants(false)
}

// If callers do not send another command, fewer and fewer commits are delayed.
func TestNoDelayWithoutReturns(t *testing.T) {
	g := newDelayed(t, 4*time.Millisecond)
	const commits = 1000
	waited := 0
	for range commits {
		g.startDefault()
		if g.waits(g.now, g.queued) {
			waited++
			g.came(2*time.Millisecond, 43)
			g.wants(false)
		}
	}
	// After 1, 2, 4 and so on to 64 that do not wait, one of 65 does.
	if waited != 7+(commits-7-127)/65+1 {
		t.Errorf("%d of %d commits waited", waited, commits)
	}
	for range mostSkips + 1 {
		g.startDefault()
	}
	g.wants(true)
	g.came(0, 100)
	g.wants(false)
	g.startDefault()
	g.wants(true) // as they have come again
}
