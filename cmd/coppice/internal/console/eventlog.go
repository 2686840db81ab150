package console

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
)

// log opens the log of the realm.
func (r *realm) log(ctx context.Context) (*history.History, error) {
	var mu sync.Mutex // histories that are used at the same time share what follows
	var kinds *client.Kinds
	asked := map[[2]string]bool{}
	h, err := history.Open(ctx, r.client.Log(), func(apiVersion, kind string) string {
		mu.Lock()
		defer mu.Unlock()
		name := [2]string{apiVersion, kind}
		if _, known := kinds.Of(apiVersion, kind); !known && !asked[name] { // it was registered since the kinds were read
			asked[name] = true
			if fresh, err := r.client.Kinds(ctx); err == nil {
				kinds = fresh
			}
		}
		return kinds.ResourceName(apiVersion, kind)
	})
	if err != nil {
		return nil, err
	}
	h.MaxKept, h.OnRealm = maxSearchKept, r.isOf
	if err := r.compare(ctx, h); err != nil {
		return nil, err
	}
	kinds, err = r.readKinds(ctx)
	return h, err
}

// logID says which log the realm has. Users who may not list realms do not receive when their realm was created.
type logID struct {
	mu   sync.Mutex
	id   []byte // of the realm, which is in each commit; empty before one was read
	last uint64 // the highest position that the log had
}

// isOf notices that a commit is of another realm, which has the name of the realm that was deleted.
func (r *realm) isOf(id []byte) {
	r.logID.mu.Lock()
	defer r.logID.mu.Unlock()
	if len(r.logID.id) > 0 && !bytes.Equal(r.logID.id, id) {
		r.replaced.Store(true)
		r.roots.forget()
		r.logID.last = 0
	}
	r.logID.id = bytes.Clone(id)
}

// compare looks whether the log is another one if it is shorter than it was.
func (r *realm) compare(ctx context.Context, h *history.History) error {
	r.logID.mu.Lock()
	shorter := h.Last < r.logID.last
	r.logID.last = max(r.logID.last, h.Last)
	r.logID.mu.Unlock()
	if !shorter || h.Last == 0 {
		return nil
	}
	return history.ReadOn(ctx, h.Log, client.LogOptions{FromSequence: h.Last, ToSequence: h.Last}, func(c client.LogCommit) error {
		r.isOf(c.GetRealmId())
		return nil
	}, func(history.Gap) error { return nil })
}

// maxFollowed is the number of events of a realm whose consequences are remembered apart.
const maxFollowed = 8

// rootsOf has what is known of causes in a realm, so that the replies of a page and all tabs do not read it again.
type rootsOf struct {
	mu   sync.Mutex
	all  map[uint64]*history.Roots
	used []uint64 // the least recent first, without 0
}

// of returns the roots for chains that end at a revision; those of commands for 0.
func (r *rootsOf) of(stop uint64) *history.Roots {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop > 0 {
		r.used = append(slices.DeleteFunc(r.used, func(s uint64) bool { return s == stop }), stop)
		if len(r.used) > maxFollowed {
			delete(r.all, r.used[0])
			r.used = r.used[1:]
		}
	}
	if r.all == nil {
		r.all = map[uint64]*history.Roots{}
	}
	if r.all[stop] == nil {
		r.all[stop] = history.NewRoots(stop)
	}
	return r.all[stop]
}

// forget forgets all causes, also for those who use them.
func (r *rootsOf) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, roots := range r.all {
		roots.Forget()
	}
}
