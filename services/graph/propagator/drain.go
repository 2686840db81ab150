package propagator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// A namespace or a kind that is being deleted is drained, when the import session that brought
// it has ended. Its contents are walked once: no object can be created in it any more. From then on the objects are removed
// without a change of the container's row, so it is checked repeatedly whether the
// container is empty.

// A container is checked again after emptyPause, or after emptyShares times the duration of
// the last check if that is longer.
const (
	emptyPause  = time.Second
	emptyShares = 20
)

// drained has the contents of a container walked or, if it is empty, publishes that its
// finalizer is done. See drain for when the contents are walked again.
func (r *round) drained(ctx context.Context, snap *state.Snapshot, container *lifecycle.Node, f queue.Flags) error {
	if lifecycle.AnyContent(snap, container) == "" {
		return r.mayFinish(ctx, lifecycle.FinalizerContents, container.UID)
	}
	r.p.drain(container.UID, f)
	return nil
}

// drain adds a walk of the contents of a container, unless they were walked before or a walk is
// pending. It adds another one if messages may have been lost (the flag lost), or if an object
// has lost its protection (the flag dependentsChanged). In the latter case it adds one also while a walk
// is pending, which may have passed the object already.
func (p *Propagator) drain(u uid.UID, f queue.Flags) {
	w := walk{ofContents, u}
	switch {
	case p.walks.Pending(w):
		if f&dependentsChanged != 0 {
			p.addWalk(w)
		}
		return
	case p.draining.Has(u) && f&(lost|dependentsChanged) == 0:
		return
	}
	if !p.draining.AddAt(u, 0, p.c.Clock().Add(emptyPause)) { // there are too many: later
		p.addAt(u, rowChanged, p.now().Add(emptyPause))
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
			if p.podsFirst.has(item.Key) {
				p.addWalk(walk{ofContents, item.Key})
			}
		} else {
			p.add(item.Key, publishAgain)
		}
	}
	p.draining.Done(b)
	return nil
}

// walkContents publishes the objects in a container that are not terminating, not protected
// and not paused by a brake. Then it calls Config.Protected with the container. While the
// contents of a namespace wait for its Pods, it calls walkPods instead.
func (p *Propagator) walkContents(ctx context.Context, container uid.UID) error {
	waits, err := p.beginWalk(container)
	if err != nil || waits {
		return cmp.Or(err, p.walkPods(ctx, container))
	}
	b := p.newPublisher()
	var cursor state.Content
	err = p.pages(func(snap *state.Snapshot) (more bool, err error) {
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
			return n == nil || n.Terminating() || n.Protected() || lifecycle.Braked(snap, n)
		})
		for _, u := range found {
			b.contents.add(container, row.Revision, u)
			if err := b.sendFull(ctx, &b.contents); err != nil {
				return false, err
			}
		}
		if more {
			p.touch(container, p.now())
			p.c.Failpoint(FailScan)
		}
		return more, nil
	})
	if err == nil {
		err = b.flush(ctx)
	}
	if err != nil || p.c.Protected == nil {
		return err
	}
	return p.pages(func(snap *state.Snapshot) (bool, error) {
		n := snap.Node(container)
		if n == nil || !n.Draining() {
			return false, nil
		}
		snap.EachProtectedIn(n, func(string, string, string, uid.UID) bool {
			p.c.Protected(snap, n)
			return false
		})
		return false, nil
	})
}
