package writer

import "time"

// A commitDelay is the adaptive commit delay: the time for which the next commit waits for
// commands of the callers of the last one. A caller that sends one command at a time sends
// the next as soon as it has the reply. Without the delay such callers would form two
// cohorts, each of which waits while the commit of the other is in flight: each command
// would take two syncs of the disk, and each sync would serve half of the callers. So if
// appends are slow, the commit waits until about as many commands have arrived as the last
// commit had, and for at most half of the time that an append takes.
//
// If appends are fast, the cores are the bottleneck, and are used better while a commit is
// in flight: commits are not delayed. Neither is the commit of a single caller. If most
// callers do not send another command, commits are delayed only for an occasional trial.
type commitDelay struct {
	quick  time.Duration // estimate of how long an undisturbed append takes
	from   int           // number of commands that had arrived when the last commit was answered
	wanted int           // number of commands to wait for since then
	until  time.Time     // when the delay ends, zero for none
	most   time.Duration // maximum delay
	timer  *time.Timer   // fires at until

	skip  int // number of commits that are still not delayed
	skips int // initial value of skip at the last failed trial
}

const (
	slowAppend     = time.Millisecond // duration of an append from which on commits are delayed
	maxCommitDelay = 25 * time.Millisecond
	mostSkips      = 64
)

func newCommitDelay() commitDelay {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return commitDelay{timer: timer, most: maxCommitDelay}
}

// start starts the delay after a commit of a number of callers, whose append took so
// long. from is the number of callers whose commands had arrived before these were answered.
func (g *commitDelay) start(now time.Time, took time.Duration, from, callers int) {
	if took < g.quick {
		g.quick -= (g.quick - took) / 2
	} else { // it may have waited for a core, or for a server that restarted
		g.quick += min(took-g.quick, max(g.quick, slowAppend)) / 16
	}
	g.until = time.Time{}
	switch {
	case g.quick < slowAppend:
	case g.skip > 0:
		g.skip--
	default:
		delay := min(g.quick/2, g.most)
		g.from, g.wanted, g.until = from, callers-callers/8, now.Add(delay)
		g.timer.Reset(delay)
	}
}

// waits reports whether to delay the commit further. came is the number of commands that
// have arrived until now.
func (g *commitDelay) waits(now time.Time, came int) bool {
	if g.until.IsZero() {
		return false
	}
	came -= g.from
	switch {
	case came >= g.wanted:
		g.skips = 0
	case now.Before(g.until):
		return true
	case came < g.wanted/2:
		g.skips = min(max(2*g.skips, 1), mostSkips)
		g.skip = g.skips
	}
	g.until = time.Time{}
	return false
}
