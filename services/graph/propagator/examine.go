package propagator

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/delays"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// An owner that is being deleted in the foreground, and that no dependent blocks,
// waits until processors have acted on its other dependents. Where counters
// do not say whether they have, because unknown owners keep some, the dependents
// are examined: soon after each commit that changed how many are left, and from
// time to time, as what is known of their other owners changes without it. When
// none delays the owner, finalizers are asked to finish it.

// When owners are examined.
const (
	examineDelay    = 20 * time.Millisecond // after a commit: more is likely to follow
	examinePause    = time.Second           // until the first repetition; it doubles
	maxExaminePause = 30 * time.Second
	// examineShares is how much longer than an examination the pause after it is.
	examineShares = 20
	// examineRows is how many owners are examined in one snapshot.
	examineRows = 256
)

// examination is when an owner is examined, by the process's own clock.
type examination struct {
	asked   uint64 // how often
	next    time.Time
	resting time.Time // not before, whatever is committed
	pause   time.Duration
	// crowded is since when too many dependents are left that only unknown owners
	// keep, zero if they are not.
	crowded lifecycle.Time
}

// examine has an owner examined soon.
func (p *Propagator) examine(u uid.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	soon := time.Now().Add(examineDelay)
	e := p.examined[u]
	switch {
	case e == nil && len(p.examined) >= maxHints:
		p.examineAll = true
	case e == nil:
		p.examined[u] = &examination{next: soon, pause: examinePause}
	default:
		e.asked++
		if e.resting.After(soon) {
			soon = e.resting
		}
		if e.pause = examinePause; soon.Before(e.next) {
			e.next = soon
		}
	}
	select {
	case p.examiner <- struct{}{}:
	default:
	}
}

// examinations examines owners until ctx ends.
func (p *Propagator) examinations(ctx context.Context) error {
	for {
		due, next := p.dueExaminations()
		for _, u := range due {
			if err := p.outcome(ctx, p.examineOne(ctx, u)); err != nil {
				return err
			}
		}
		if len(due) > 0 {
			continue
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.examiner:
		case <-timer:
			if err := p.outcome(ctx, p.examineMore()); err != nil {
				return err
			}
		}
	}
}

// dueExaminations are owners to be examined now, or else when the next is, zero
// for never.
func (p *Propagator) dueExaminations() (due []uid.UID, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.examineAll {
		next = now.Add(examinePause)
	}
	for u, e := range p.examined {
		switch {
		case !e.next.After(now):
			if due = append(due, u); len(due) == examineRows {
				return due, next
			}
		case next.IsZero() || e.next.Before(next):
			next = e.next
		}
	}
	return due, next
}

// examineMore finds owners to be examined among all rows, if there were too many to
// remember.
func (p *Propagator) examineMore() error {
	p.mu.Lock()
	all := p.examineAll
	p.examineAll = false
	p.mu.Unlock()
	if !all {
		return nil
	}
	snap := p.c.State.Snapshot()
	snap.EachOwed("", func(u uid.UID, row state.OwedRow) bool {
		if row.Examine > 0 {
			p.examine(u)
		}
		return true
	})
	return closeSnapshot(snap)
}

// examinationsAsked is how often an examination of u has been asked for.
func (p *Propagator) examinationsAsked(u uid.UID) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.examined[u]; e != nil {
		return e.asked
	}
	return 0
}

// examineOne examines an owner, and asks finalizers to finish it if no dependent
// delays it.
func (p *Propagator) examineOne(ctx context.Context, u uid.UID) error {
	start := time.Now()
	now := lifecycle.TimeOf(p.c.Now())
	asked := p.examinationsAsked(u)
	snap := p.c.State.Snapshot()
	n := snap.Node(u)
	owed, due := lifecycle.OwedWhen(snap, u, n)
	if owed = p.begun(u, owed, due); owed.Examine == 0 {
		p.mu.Lock()
		if e := p.examined[u]; e != nil && e.asked == asked { // not asked for since the snapshot
			delete(p.examined, u)
		}
		p.mu.Unlock()
		return closeSnapshot(snap)
	}
	found, err := delays.Of(ctx, snap, n, now)
	if since := p.rested(u, start, now, found); since != 0 && since.Add(p.c.CrowdedAfter) <= now && p.c.Crowded != nil {
		p.c.Crowded(snap, n, owed.Examine, since)
	}
	if fail := closeSnapshot(snap); err == nil {
		err = fail
	}
	if err != nil || found.Delayed || found.TooMany {
		return err
	}
	r := &round{p: p, out: p.newOutbox()}
	if err := r.finished(ctx, lifecycle.FinalizerForeground, u); err != nil {
		return err
	}
	return r.flush(ctx)
}

// rested plans the next examination of an owner, and returns since when too many
// of its dependents are left that only unknown owners keep, zero if they are not.
func (p *Propagator) rested(u uid.UID, start time.Time, now lifecycle.Time, found delays.Finding) (crowded lifecycle.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.examined[u]
	if e == nil {
		return 0 // it was removed meanwhile
	}
	end := time.Now()
	e.resting = end.Add(examineShares * end.Sub(start))
	if e.next = end.Add(e.pause); e.next.Before(e.resting) {
		e.next = e.resting
	}
	e.pause = min(2*e.pause, maxExaminePause)
	switch {
	case !found.TooMany:
		e.crowded = 0
	case e.crowded == 0:
		e.crowded = now
	}
	return e.crowded
}
