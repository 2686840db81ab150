package propagator

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// When owners are examined.
const (
	examineDelay    = 20 * time.Millisecond // after a commit: more is likely to follow
	examinePause    = time.Second           // until the first repetition; it doubles
	maxExaminePause = 30 * time.Second
	// examineShares is how much longer than an examination the rest after it is.
	examineShares = 20
)

// examiner decides when the foreground deletion of an owner is done, if no dependent blocks
// it. The owner waits until processors have acted on its other dependents. If unknown owners
// keep some of these, the counters do not show whether that is so. Then the examiner reads
// the dependents: soon after each commit that changed their number, and from time to time,
// because their unknown owners may become known without such a commit. When no dependent
// delays the owner, the examiner publishes that the finalizer may be done.
type examiner struct {
	p     *Propagator
	queue *queue.Queue[uid.UID]

	mu     sync.Mutex
	owners map[uid.UID]*examination // that are examined repeatedly
}

// examination is what is remembered of an owner.
type examination struct {
	pause time.Duration // until the next
	// crowded is since when too many dependents are left that only unknown owners
	// keep, zero if they are not.
	crowded lifecycle.Time
}

func newExaminer(p *Propagator) *examiner {
	return &examiner{p: p, queue: queue.New[uid.UID](queue.Config{Now: p.c.Clock}), owners: map[uid.UID]*examination{}}
}

// add has an owner examined soon.
func (x *examiner) add(u uid.UID) {
	if !x.queue.AddAt(u, 0, x.p.c.Clock().Add(examineDelay)) { // there are too many: its row is read again
		x.p.addAt(u, rowChanged, x.p.now().Add(examinePause))
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.owners[u]; e != nil {
		e.pause = examinePause
	}
}

// forget drops owners whose rows are gone.
func (x *examiner) forget(gone []uid.UID) {
	x.queue.Update(func(owners queue.Tx[uid.UID]) {
		for _, u := range gone {
			owners.Forget(u, 0)
		}
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, u := range gone {
		delete(x.owners, u)
	}
}

// run examines owners until ctx ends.
func (x *examiner) run(ctx context.Context) error {
	for {
		b, err := x.queue.Get(ctx, 1)
		if err != nil {
			return err
		}
		err = x.examine(ctx, b.Items[0].Key)
		x.queue.Done(b)
		if err := x.p.outcome(ctx, err); err != nil {
			return err
		}
	}
}

// examine examines an owner, and publishes that its finalizer may be done if no
// dependent delays it.
func (x *examiner) examine(ctx context.Context, u uid.UID) error {
	start, now := x.p.c.Clock(), x.p.now()
	done := false
	err := x.p.pages(func(snap *state.Snapshot) (bool, error) {
		w := workOf(snap, u, state.WorkRow{}, now)
		if x.p.delay(&w); w.Examine == 0 {
			x.mu.Lock()
			delete(x.owners, u)
			x.mu.Unlock()
			return false, nil
		}
		found, err := resolve.DelayOf(ctx, snap, w.node, now)
		since := x.again(u, start, now, found.TooMany)
		if since != 0 && since.Add(x.p.c.CrowdedAfter) <= now && x.p.c.Crowded != nil {
			x.p.c.Crowded(snap, w.node, w.Examine, since)
		}
		if found.Protected && x.p.c.Protected != nil {
			x.p.c.Protected(snap, w.node) // with several owners, so that the counters do not show it
		}
		done = !found.Delayed && !found.TooMany
		return false, err
	})
	if err != nil || !done {
		return err
	}
	b := x.p.newPublisher()
	if err := b.mayFinish(ctx, lifecycle.FinalizerForeground, u); err != nil {
		return err
	}
	return b.flush(ctx)
}

// again schedules the next examination of an owner, and returns since when too many
// of its dependents are left that only unknown owners keep, zero if they are not.
func (x *examiner) again(u uid.UID, start time.Time, now lifecycle.Time, tooMany bool) (crowded lifecycle.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.owners[u]
	if e == nil {
		e = &examination{pause: examinePause}
		x.owners[u] = e
	}
	end := x.p.c.Clock()
	x.queue.Rest(u, end.Add(examineShares*end.Sub(start)))
	x.queue.AddAt(u, 0, end.Add(e.pause))
	e.pause = min(2*e.pause, maxExaminePause)
	switch {
	case !tooMany:
		e.crowded = 0
	case e.crowded == 0:
		e.crowded = now
	}
	return e.crowded
}
