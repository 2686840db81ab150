package writer

import "time"

// A gathering is the wait of the next commit for those whom the last one has
// answered. Callers with one command at a time come again as soon as they are
// answered. Did the next commit not wait for them, they would make two cohorts, one
// of which waits while the commit of the other is on its way: each command would take
// two syncs of the disk, and each sync would serve half of them. So where a sync takes
// long, those who were answered are waited for: until about as many have come as were
// answered, and for at most half of the time that an append takes.
//
// Where appends are quick it is the cores that are scarce, which are better used while
// a commit is on its way. A caller who is alone is waited for by nobody. And where most
// of those who are answered do not come again, nobody is waited for, but for a trial
// from time to time.
type gathering struct {
	quick  time.Duration // how long an append takes that nothing is in the way of
	from   int           // how many callers had come when the last commit was answered
	enough int           // how many are awaited since then
	until  time.Time     // when to wait no longer, zero for no waiting
	most   time.Duration // to wait
	timer  *time.Timer   // tells of until

	skip  int // how many commits do not wait
	skips int // how many did not when last somebody had not come
}

const (
	slowAppend   = time.Millisecond // from when on commits wait
	mostPatience = 25 * time.Millisecond
	mostSkips    = 64
)

func newGathering() gathering {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return gathering{timer: timer, most: mostPatience}
}

// answered begins to wait for the callers of a commit, which took so long to append.
// from is how many callers had come before they were answered.
func (g *gathering) answered(now time.Time, took time.Duration, from, callers int) {
	if took < g.quick {
		g.quick -= (g.quick - took) / 2
	} else { // it may have waited for a core, or for a server to come back
		g.quick += min(took-g.quick, max(g.quick, slowAppend)) / 16
	}
	g.until = time.Time{}
	switch {
	case g.quick < slowAppend:
	case g.skip > 0:
		g.skip--
	default:
		patience := min(g.quick/2, g.most)
		g.from, g.enough, g.until = from, callers-callers/8, now.Add(patience)
		g.timer.Reset(patience)
	}
}

// waits reports whether to wait on. came is how many callers have come until now.
func (g *gathering) waits(now time.Time, came int) bool {
	if g.until.IsZero() {
		return false
	}
	came -= g.from
	switch {
	case came >= g.enough:
		g.skips = 0
	case now.Before(g.until):
		return true
	case came < g.enough/2:
		g.skips = min(max(2*g.skips, 1), mostSkips)
		g.skip = g.skips
	}
	g.until = time.Time{}
	return false
}
