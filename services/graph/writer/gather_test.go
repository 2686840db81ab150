package writer

import (
	"testing"
	"time"
)

// gatherer is a gathering whose time a test tells.
type gatherer struct {
	*testing.T
	gathering
	now    time.Time
	queued int
}

func newGatherer(t *testing.T, append time.Duration) *gatherer {
	t.Helper()
	t.Parallel()
	g := &gatherer{T: t, gathering: newGathering(), now: time.Now()}
	g.quick = append
	return g
}

// landed is a commit of 100 callers whose append took as long as they usually do.
func (g *gatherer) landed() { g.answered(g.now, g.quick, g.queued, 100) }

// came lets callers come, after a while.
func (g *gatherer) came(after time.Duration, callers int) {
	g.now = g.now.Add(after)
	g.queued += callers
}

func (g *gatherer) wants(waits bool) {
	g.Helper()
	if got := g.waits(g.now, g.queued); got != waits {
		g.Errorf("waits: %t, want %t", got, waits)
	}
}

// Those who were answered are waited for, until almost all have come.
func TestGathers(t *testing.T) {
	g := newGatherer(t, 4*time.Millisecond)
	g.came(0, 1000)
	g.wants(false)
	g.landed()
	g.wants(true)
	g.came(time.Millisecond, 87)
	g.wants(true)
	g.came(0, 1)
	g.wants(false)
	g.landed()
	g.came(0, 200)
	g.wants(false)
}

// Who is alone is not waited for, whatever they come with.
func TestGathersAlone(t *testing.T) {
	g := newGatherer(t, 4*time.Millisecond)
	for range 100 {
		g.answered(g.now, g.quick, g.queued, 1)
		g.came(0, 1)
		g.wants(false)
	}
}

// They are waited for no longer than half of the time that an append takes.
func TestGathersNotForLong(t *testing.T) {
	g := newGatherer(t, 4*time.Millisecond)
	g.landed()
	g.came(2*time.Millisecond-1, 60)
	g.wants(true)
	g.came(1, 0)
	g.wants(false)
	g.landed()
	g.wants(true) // most have come
}

// Where appends are quick nobody is waited for.
func TestGathersWhereSlow(t *testing.T) {
	g := newGatherer(t, slowAppend-1)
	g.landed()
	g.wants(false)
	for range 100 {
		g.answered(g.now, 2*slowAppend, g.queued, 100)
	}
	g.wants(true)
	for range 2 { // an append that waits for a core is longer, none is shorter than the sync
		g.answered(g.now, slowAppend/4, g.queued, 100)
	}
	g.wants(false)
}

// A quick disk is not slow because a server was away for a while, and nobody is waited
// for as long as that.
func TestGathersAfterStall(t *testing.T) {
	g := newGatherer(t, slowAppend/10)
	g.answered(g.now, time.Minute, g.queued, 100)
	g.wants(false)
	for range 1000 {
		g.answered(g.now, time.Minute, g.queued, 100)
	}
	g.wants(true)
	g.came(mostPatience, 0)
	g.wants(false)
}

// Where those who are answered do not come again, ever fewer commits wait.
func TestGathersNobody(t *testing.T) {
	g := newGatherer(t, 4*time.Millisecond)
	const commits = 1000
	waited := 0
	for range commits {
		g.landed()
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
		g.landed()
	}
	g.wants(true)
	g.came(0, 100)
	g.wants(false)
	g.landed()
	g.wants(true) // as they have come again
}
