package propagator

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// A walk reads an index of the state that may be long, concurrently with rounds. It
// reads some pages, each from a snapshot of its own, from a cursor on: what lies
// before the cursor is not read again. A walk that is added while it runs runs once
// more afterwards.

// walk says what to read.
type walk struct {
	kind walkKind
	uid  uid.UID
}

type walkKind uint8

const (
	ofDependents walkKind = iota // of an owner
	ofSolid                      // dependents of an owner that has begun to keep them
	ofContents                   // of a namespace or kind that is deleted
	ofCalls                      // rows whose calls wait for room in the stream; without a uid
)

const (
	// maxWalks is how many walks run at a time.
	maxWalks = 4
	// pageChunks is how many chunks are read from one snapshot.
	pageChunks = 16
	// walksFullPause is the time after which a row is read again if its walk did not fit
	// into the queue.
	walksFullPause = time.Second
	// restShares: if only some dependents of an owner were due, the owner rests for this many
	// times the duration of its walk. The next walk reads all dependents again to find more.
	restShares = 20
)

// page is how many uids are read from one snapshot.
func (p *Propagator) page() int { return pageChunks * p.c.ChunkSize }

// addWalk adds a walk, or its row for later if there are too many.
func (p *Propagator) addWalk(w walk) {
	if !p.walks.Add(w, 0) {
		p.addAt(w.uid, publishAgain|nowSolid, p.now().Add(walksFullPause))
	}
}

// runWalks runs walks until ctx ends.
func (p *Propagator) runWalks(ctx context.Context) error {
	for {
		b, err := p.walks.Get(ctx, 1)
		if err != nil {
			return err
		}
		err = p.runWalk(ctx, b.Items[0].Key)
		p.walks.Done(b)
		if err := p.outcome(ctx, err); err != nil {
			return err
		}
	}
}

// runWalk runs one walk.
func (p *Propagator) runWalk(ctx context.Context, w walk) error {
	switch w.kind {
	case ofDependents:
		return p.walkDependents(ctx, w)
	case ofSolid:
		return p.walkSolid(ctx, w.uid)
	case ofContents:
		return p.walkContents(ctx, w.uid)
	default:
		return p.refill(ctx)
	}
}

// walkDependents publishes an owner's dependents, until no work is pending because of it.
func (p *Propagator) walkDependents(ctx context.Context, w walk) error {
	d := &dependentsWalk{publisher: p.newPublisher(), owner: w.uid}
	start := p.c.Now()
	err := p.pages(func(snap *state.Snapshot) (bool, error) { return d.page(ctx, snap) })
	if err == nil {
		err = d.flush(ctx)
	}
	if d.someNotDue {
		now := p.c.Now()
		p.walks.Rest(w, now.Add(restShares*now.Sub(start)))
	}
	return err
}

type dependentsWalk struct {
	*publisher
	owner      uid.UID
	cursor     state.Edge
	someNotDue bool // only some dependents were due
}

func (d *dependentsWalk) page(ctx context.Context, snap *state.Snapshot) (more bool, err error) {
	row, ok := snap.Pending(d.owner)
	if !ok {
		return false, nil
	}
	w := workOf(snap, d.owner, row, d.p.now())
	if d.p.delay(&w); !w.Evaluate && !w.Orphan {
		return false, nil
	}
	someNotDue := w.someNotDue()
	d.someNotDue = d.someNotDue || someNotDue
	into := d.chunkOf(w.Orphan)
	publish := func(dependent uid.UID) bool {
		into.add(d.owner, w.revision, dependent)
		err = d.sendFull(ctx, into)
		return err == nil
	}
	count := 0
	braked := !w.Orphan && snap.AnyTripped()
	var found []uid.UID // if only some are due, or may be published
	snap.Dependents(d.owner, w.filter(snap), d.cursor, func(e state.Edge, dependent uid.UID) bool {
		d.cursor = e
		d.read++
		count++
		if someNotDue || braked {
			found = append(found, dependent)
		} else if !publish(dependent) {
			return false
		}
		return count < d.p.page()
	})
	if someNotDue {
		found = d.p.dueDependents(snap, d.owner, found, w.at)
	}
	if braked {
		found = d.p.unbraked(snap, found)
	}
	for _, dependent := range found {
		if !publish(dependent) {
			break
		}
	}
	if more = err == nil && count == d.p.page(); more {
		d.p.touch(d.owner, w.at)
		d.p.c.Failpoint(FailScan)
	}
	return more, err
}
