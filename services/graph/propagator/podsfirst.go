package propagator

import (
	"context"
	"sync"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// The contents of a namespace that is being deleted wait for its Pods (A5.8). While the namespace
// has Pods, each check whether it is empty (drain.go) also starts a walk: of the Pods and their
// users while the other contents wait, and of all contents afterwards. The last walk begins when
// no Pod is left, so that it includes the objects that the writer refused before.

// podsFirst has the namespaces that had Pods when their last walk began.
type podsFirst struct {
	mu  sync.Mutex
	set map[uid.UID]struct{}
}

func (f *podsFirst) has(u uid.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.set[u]
	return ok
}

func (f *podsFirst) put(u uid.UID, has bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !has {
		delete(f.set, u)
		return
	}
	if f.set == nil {
		f.set = map[uid.UID]struct{}{}
	}
	f.set[u] = struct{}{}
}

func (f *podsFirst) forget(list []uid.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.set) == 0 {
		return
	}
	for _, u := range list {
		delete(f.set, u)
	}
}

// beginWalk reports whether the contents of a container wait for its Pods. If they have waited
// for as long as the realm settings allow, it calls Config.PodsLate.
func (p *Propagator) beginWalk(container uid.UID) (waits bool, err error) {
	err = p.pages(func(snap *state.Snapshot) (bool, error) {
		n := snap.Node(container)
		if n == nil {
			return false, nil
		}
		until := lifecycle.PodsUntil(snap, n)
		p.podsFirst.put(container, until != 0)
		waits = p.now() < until
		if until != 0 && !waits && p.c.PodsLate != nil {
			p.c.PodsLate(snap, n)
		}
		return false, nil
	})
	return waits, err
}

// walkPods publishes the Pods of a namespace, and the users for which terminating Pods wait.
func (p *Propagator) walkPods(ctx context.Context, namespace uid.UID) error {
	b := p.newPublisher()
	var cursor state.NameCursor
	err := p.pages(func(snap *state.Snapshot) (more bool, err error) {
		row, ok := snap.Pending(namespace)
		kind := snap.Kinds().Of("", "Pod")
		if !ok || !row.Drain || kind == nil {
			return false, nil
		}
		var found []uid.UID
		snap.Names(kind, snap.Node(namespace).Name, cursor, func(in, name string, u uid.UID) bool {
			cursor, found = state.NameCursor{Namespace: in, Name: name}, append(found, u)
			more = len(found) == p.page()
			return !more
		})
		snap.Prefetch(found)
		for _, u := range p.withUsers(snap, found) {
			n := snap.Node(u)
			if n == nil || n.Terminating() || n.Protected() || lifecycle.Braked(snap, n) {
				continue
			}
			b.contents.add(namespace, row.Revision, u)
			if err := b.sendFull(ctx, &b.contents); err != nil {
				return false, err
			}
		}
		if more {
			p.touch(namespace, p.now())
			p.c.Failpoint(FailScan)
		}
		return more, nil
	})
	if err != nil {
		return err
	}
	return b.flush(ctx)
}

// withUsers adds the users of objects that are being deleted and wait for their users, and
// the users of these, up to a page.
func (p *Propagator) withUsers(snap *state.Snapshot, list []uid.UID) []uid.UID {
	seen := map[uid.UID]bool{}
	most := len(list) + p.page()
	for i := 0; i < len(list) && len(list) < most; i++ {
		n := snap.Node(list[i])
		if n == nil || !n.InUse() {
			continue
		}
		snap.EachUser(n, func(u uid.UID) bool {
			if !seen[u] {
				seen[u] = true
				list = append(list, u)
			}
			return len(list) < most
		})
	}
	return list
}
