package scanner

import (
	"log/slog"
	"testing"
	"time"
)

// B6.2: a step ahead is followed when it has lasted, also if other steps come before and after.
func TestSteady(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	wall, elapsed := start, time.Duration(0)
	c := newSteady(func() time.Time { return wall }, func() time.Duration { return elapsed }, slog.New(slog.DiscardHandler))
	pass := func(d time.Duration) {
		wall, elapsed = wall.Add(d), elapsed+d
	}
	check := func(when string, ahead time.Duration) {
		t.Helper()
		// The clock may have come nearer to the wall clock by 1% of what has passed.
		early := start.Add(elapsed + ahead)
		if now := c.now(); now.Before(early) || now.After(early.Add(elapsed/drift)) {
			t.Errorf("%s: %v after the start, want %v", when, now.Sub(start), elapsed+ahead)
		}
	}
	check("at the start", 0)
	wall = wall.Add(time.Hour)
	check("after a step", 0)
	pass(59 * time.Minute)
	check("before it has lasted", 0)
	wall = wall.Add(24 * time.Hour)
	check("after another step", 0)
	pass(2 * time.Minute)
	check("when the first alone has lasted", 0)
	wall = wall.Add(-24 * time.Hour)
	check("after the second was taken back", 0)
	pass(time.Minute)
	wall = wall.Add(24 * time.Hour)
	check("after it has come again", 0)
	pass(59 * time.Minute)
	check("before it has lasted", 0)
	pass(2 * time.Minute)
	check("when both have lasted", 25*time.Hour)
}
