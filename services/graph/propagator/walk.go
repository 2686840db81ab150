package propagator

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
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
	// walksFullPause is after how long a row is evaluated again whose walk the queue had
	// no room for.
	walksFullPause = time.Second
	// restShares is how much longer than a walk the rest after it is, where only some
	// dependents were due, which each walk has to find out.
	restShares = 20
)

// page is how many uids are read from one snapshot.
func (p *Propagator) page() int { return pageChunks * p.c.ChunkSize }

// addWalk adds a walk, or its row for later if there are too many.
func (p *Propagator) addWalk(w walk) {
	if !p.walks.Add(w, 0) {
		p.addAt(w.uid, everything|solid, p.now().Add(walksFullPause))
	}
}

// runWalks runs walks until ctx ends.
func (p *Propagator) runWalks(ctx context.Context) error {
	for {
		b, err := p.walks.Get(ctx, 1)
		if err != nil {
			return err
		}
		err = p.walk(ctx, b.Items[0].Key)
		p.walks.Done(b)
		if err := p.outcome(ctx, err); err != nil {
			return err
		}
	}
}

func (p *Propagator) walk(ctx context.Context, w walk) error {
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

// walkDependents publishes an owner's dependents, until nothing is pending because of
// it.
func (p *Propagator) walkDependents(ctx context.Context, w walk) error {
	d := &dependentsWalk{publisher: p.newPublisher(), owner: w.uid}
	start := p.c.Now()
	err := p.pages(func(snap *state.Snapshot) (bool, error) { return d.page(ctx, snap) })
	if err == nil {
		err = d.flush(ctx)
	}
	if d.partly {
		now := p.c.Now()
		p.walks.Rest(w, now.Add(restShares*now.Sub(start)))
	}
	return err
}

type dependentsWalk struct {
	*publisher
	owner  uid.UID
	cursor state.Edge
	partly bool // only some dependents were due
}

func (d *dependentsWalk) page(ctx context.Context, snap *state.Snapshot) (more bool, err error) {
	u := d.owner
	row, ok := snap.Owed(u)
	if !ok {
		return false, nil
	}
	n := snap.Node(u)
	pending, due := lifecycle.OwedWhen(snap, u, n)
	if pending = d.p.begun(u, pending, due); !pending.Judge && !pending.Orphan {
		return false, nil
	}
	partly := pending.Judge && due.Last > d.p.now()
	d.partly = d.partly || partly
	into := d.dependentsOf(pending.Orphan)
	publish := func(dependent uid.UID) bool {
		into.add(u, row.Revision, dependent)
		err = d.sendFull(ctx)
		return err == nil
	}
	count := 0
	var found []uid.UID // if only some are due
	snap.Dependents(u, filter(snap, n, pending.Orphan), d.cursor, func(e state.Edge, dependent uid.UID) bool {
		d.cursor = e
		d.read++
		count++
		if partly {
			found = append(found, dependent)
		} else if !publish(dependent) {
			return false
		}
		return count < d.p.page()
	})
	if partly {
		for _, dependent := range d.p.ripe(snap, u, found) {
			if !publish(dependent) {
				break
			}
		}
	}
	if more = err == nil && count == d.p.page(); more {
		d.p.touch(u)
		d.p.c.Failpoint(FailScan)
	}
	return more, err
}

// filter selects the dependents for which work is pending because of u: all of an
// owner that is absent; the valid ones of one that orphans them or waits for them;
// otherwise those with invalid references, also while the owner waits, however long.
func filter(snap *state.Snapshot, n *lifecycle.Node, orphan bool) state.ClaimFilter {
	switch {
	case n == nil:
		return state.ClaimFilter{}
	case orphan:
		return snap.ValidClaims(n, true)
	case !n.Waiting():
		return snap.ValidClaims(n, false)
	}
	all, valid := snap.Count(n.UID, lifecycle.Claims{}), lifecycle.Dependents(snap, n)
	switch {
	case valid.Pending() == 0:
		return snap.ValidClaims(n, false)
	case all.Pending() > valid.Pending():
		return state.ClaimFilter{}
	}
	return snap.ValidClaims(n, true)
}
