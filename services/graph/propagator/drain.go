package propagator

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// A namespace or a kind that is being deleted is drained. Its contents are walked
// once: no object can be created in it any more. From then on the objects are removed
// without a change of the container's row, so it is checked repeatedly whether the
// container is empty.

// emptyPause is how often, emptyShares how much more rarely where a check takes long.
const (
	emptyPause  = time.Second
	emptyShares = 20
)

// drained has a container drained, or publishes that its finalizer is done if it is empty.
// It walks the contents once, or again if that may have been lost.
func (r *round) drained(ctx context.Context, snap *state.Snapshot, container *lifecycle.Node, f queue.Flags) error {
	if lifecycle.AnyContent(snap, container) == "" {
		return r.finished(ctx, lifecycle.FinalizerContents, container.UID)
	}
	r.p.drain(container.UID, f&lost != 0)
	return nil
}

// drain walks the contents of a container, unless that is known to have been done or
// is being done.
func (p *Propagator) drain(u uid.UID, again bool) {
	w := walk{ofContents, u}
	if p.walks.Pending(w) || p.draining.Has(u) && !again {
		return
	}
	if !p.draining.AddAt(u, 0, p.c.Clock().Add(emptyPause)) { // there are too many: later
		p.addAt(u, changed, p.now().Add(emptyPause))
		return
	}
	p.addWalk(w)
}

// watchDraining checks which containers are empty, until ctx ends.
func (p *Propagator) watchDraining(ctx context.Context) error {
	for {
		b, err := p.draining.Get(ctx, 0)
		if err != nil {
			return err
		}
		if err := p.checkDraining(b); err != nil {
			return err
		}
	}
}

// checkDraining adds the rows of those containers that are empty, and checks the
// others again later.
func (p *Propagator) checkDraining(b queue.Batch[uid.UID]) error {
	start := p.c.Clock()
	full := make([]bool, len(b.Items))
	err := p.pages(func(snap *state.Snapshot) (bool, error) {
		for i, item := range b.Items {
			n := snap.Node(item.Key)
			full[i] = n != nil && n.Draining() && lifecycle.AnyContent(snap, n) != ""
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	end := p.c.Clock()
	next := end.Add(max(emptyPause, emptyShares*end.Sub(start)))
	for i, item := range b.Items {
		if full[i] {
			p.draining.AddAt(item.Key, 0, next)
		} else {
			p.add(item.Key, everything)
		}
	}
	p.draining.Done(b)
	return nil
}

// walkContents publishes all objects in a container that are not being deleted.
func (p *Propagator) walkContents(ctx context.Context, container uid.UID) error {
	b := p.newPublisher()
	var cursor state.Content
	err := p.pages(func(snap *state.Snapshot) (more bool, err error) {
		row, ok := snap.Pending(container)
		if !ok || !row.Drain {
			return false, nil
		}
		var found []uid.UID
		snap.Contents(snap.Node(container), cursor, func(at state.Content, u uid.UID) bool {
			cursor, found = at, append(found, u)
			more = len(found) == p.page()
			return !more
		})
		snap.Prefetch(found)
		found = slices.DeleteFunc(found, func(u uid.UID) bool {
			n := snap.Node(u)
			return n == nil || n.Terminating()
		})
		for _, u := range found {
			b.contents.add(container, row.Revision, u)
			if err := b.sendFull(ctx, &b.contents); err != nil {
				return false, err
			}
		}
		if more {
			p.touch(container)
			p.c.Failpoint(FailScan)
		}
		return more, nil
	})
	if err != nil {
		return err
	}
	return b.flush(ctx)
}
