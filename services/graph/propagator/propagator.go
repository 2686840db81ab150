package propagator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/cycles"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Propagator publishes pending work. Its methods are safe for concurrent use.
type Propagator struct {
	c         Config
	rows      *queue.Queue[uid.UID] // rows to read: round.go
	walks     *queue.Queue[walk]    // indexes to read: walk.go
	draining  *queue.Queue[uid.UID] // containers that may become empty: drain.go
	podsFirst podsFirst             // namespaces that have Pods: podsfirst.go
	examiner  *examiner             // owners that counters alone do not decide about: examine.go
	blocked   *cycles.Blocked       // objects that may wait for each other: cycles.go
	quota     *quota                // calls in the stream: quota.go
	published *publishTimes         // of rows: republish.go
	traces    *traces               // of rows: traces.go
	stuck     stuckCursor           // stuck.go

	parkedUnknown atomic.Int64 // a lifecycle.Time: when parked work could not be read last: calls.go
}

// Why a row is in the queue.
const (
	// rowChanged: the row is to be read. An object that is only solid may have none.
	rowChanged queue.Flags = 1 << iota
	// dependentsChanged: what its dependents need, or which of them, may have changed.
	dependentsChanged
	// lost: messages about it may have been lost, so that calls are published again
	// that count already.
	lost
	// nowSolid: the object has begun to keep its dependents.
	nowSolid
	// unpublishable: one of its calls could not be published.
	unpublishable
	// sessions, of all rows: an import session was closed.
	sessions
)

// publishAgain: the row is read, and all of its work is published, also what was published before.
const publishAgain = rowChanged | dependentsChanged | lost

// New returns a propagator. It begins by publishing all pending work.
func New(c Config) *Propagator {
	c.setDefaults()
	p := &Propagator{
		c:         c,
		rows:      queue.New[uid.UID](queue.Config{Now: c.Now, Step: dueStep}),
		walks:     queue.New[walk](queue.Config{Now: c.Now}),
		draining:  queue.New[uid.UID](queue.Config{Now: c.Clock, Step: emptyPause}),
		quota:     newQuota(c.Limits),
		published: &publishTimes{at: map[uid.UID]lifecycle.Time{}},
		traces:    newTraces(),
	}
	p.examiner = newExaminer(p)
	p.blocked = cycles.NewBlocked(queue.DefaultLimit)
	p.rows.AddAll(publishAgain)
	return p
}

// Notify adds the rows that a commit changed. It does not block.
func (p *Propagator) Notify(changes []state.WorkChange) {
	var gone []uid.UID
	full := false
	p.rows.Update(func(rows queue.Tx[uid.UID]) {
		for i := range changes {
			c := &changes[i]
			var f queue.Flags
			switch {
			case c.Has && c.Dependents:
				f = rowChanged | dependentsChanged
			case c.Has:
				f = rowChanged
			default:
				gone = append(gone, c.UID)
				rows.Forget(c.UID, nowSolid)
			}
			if c.Keeps {
				f |= nowSolid
			}
			if f != 0 {
				full = !rows.Add(c.UID, f) || full
			}
		}
	})
	if full {
		p.rows.AddAll(publishAgain)
	}
	if len(gone) == 0 {
		return
	}
	p.published.forget(gone)
	p.traces.forget(gone)
	p.examiner.forget(gone)
	p.blocked.Forget(gone)
	p.podsFirst.forget(gone)
	p.draining.Update(func(containers queue.Tx[uid.UID]) {
		for _, u := range gone {
			containers.Forget(u, 0)
		}
	})
	p.walks.Update(func(walks queue.Tx[walk]) {
		for _, u := range gone {
			walks.Forget(walk{ofDependents, u}, 0)
		}
	})
	if p.quota.release(gone...) {
		p.wantRefill()
	}
}

// Reconsider has all rows read again: a kind was registered or withdrawn, or
// the realm's settings changed, which may decide about owners that were unknown.
func (p *Propagator) Reconsider() { p.rows.AddAll(publishAgain) }

// SessionClosed has the dependents of absent owners, and the built-in finalizers of
// imported objects, read again: an import session was closed, which may have
// delayed them.
func (p *Propagator) SessionClosed() { p.rows.AddAll(sessions) }

// add adds a row to the queue, or all rows if the queue is full.
func (p *Propagator) add(u uid.UID, f queue.Flags) {
	if !p.rows.Add(u, f) {
		p.rows.AddAll(publishAgain)
	}
}

// addAt adds a row for a time, or all rows if the queue is full.
func (p *Propagator) addAt(u uid.UID, f queue.Flags, t lifecycle.Time) {
	if t != lifecycle.Never && !p.rows.AddAt(u, f, t.Time()) {
		p.rows.AddAllAt(publishAgain, t.Time())
	}
}

// Run publishes until ctx ends.
func (p *Propagator) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.publishRows(ctx) })
	for range maxWalks {
		g.Go(func() error { return p.runWalks(ctx) })
	}
	g.Go(func() error { return p.examiner.run(ctx) })
	g.Go(func() error { return p.watchDraining(ctx) })
	g.Go(func() error { return p.breakCycles(ctx) })
	g.Go(func() error { return p.observe(ctx) })
	return g.Wait()
}

// errState is what ends a propagator: its own state cannot be read.
var errState = errors.New("propagator: the state cannot be read")

// retryPause is how long to wait before publishing again what failed.
const retryPause = 250 * time.Millisecond

// outcome handles the failure of a component. What NATS does not accept now is
// still pending: after a pause, all rows are published again.
func (p *Propagator) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errState):
		return err
	}
	p.c.Log.Warn("cannot publish work; trying again", "realm", p.c.Realm, "error", err)
	if err := poll.Sleep(ctx, retryPause); err != nil {
		return err
	}
	p.rows.AddAll(publishAgain)
	return nil
}

// now is the realm's time.
func (p *Propagator) now() lifecycle.Time { return lifecycle.TimeOf(p.c.Now()) }

// pages calls page with one snapshot after another until it reports that there is
// no more to read. Snapshots are short-lived because Pebble cannot drop what was
// deleted since the oldest was taken.
func (p *Propagator) pages(page func(*state.Snapshot) (more bool, err error)) error {
	for {
		snap := p.c.State.Snapshot()
		more, err := page(snap)
		if fail := closeSnapshot(snap); err == nil {
			err = fail
		}
		if err != nil || !more {
			return err
		}
	}
}

func closeSnapshot(snap *state.Snapshot) error {
	err := snap.Err()
	if fail := snap.Close(); err == nil {
		err = fail
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errState, err)
	}
	return nil
}
