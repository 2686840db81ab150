// Package watch tells clients what happens to objects, from a bounded memory of
// what happened last.
//
// The Hub gets the changes of each commit, in order. It remembers those of
// resources that somebody watches, or watched not long ago, up to a bound;
// whoever wants to go on from before that is told to list again. A watch is one
// goroutine that reads the memory at its own pace, so that a slow one holds up
// nobody: when it falls behind the bound, it ends.
package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/services/graph/state"
)

// Limits of the memory.
const (
	maxRemembered = 1 << 16
	linger        = 2 * time.Minute // after the last watch of a resource
	maxWatches    = 4096
)

// Hub remembers changes and wakes those who watch.
type Hub struct {
	now func() time.Time

	mu        sync.Mutex
	ring      []state.Change // a ring of maxRemembered
	first     uint64         // number of the oldest remembered
	next      uint64         // number of the next
	revision  uint64         // up to which everything was told
	interests map[string]*interest
	recording []map[string]bool // resources that each commit under way records
	watches   int
	changed   chan struct{} // closed and replaced with each commit
}

// interest is a resource that is watched, or was.
type interest struct {
	watches int
	until   time.Time // when it is forgotten, without watches
	ready   bool      // false while a commit is under way that does not record it
	since   uint64    // revision after which its changes were recorded
	first   uint64    // number of the first change that was recorded
}

// NewHub returns a hub for a state that is at a revision.
func NewHub(revision uint64, now func() time.Time) *Hub {
	return &Hub{now: now, revision: revision, interests: map[string]*interest{}, changed: make(chan struct{})}
}

// Begin says that commits are being applied, and returns which resources'
// changes are to be recorded; nil if of none. Commit or Abort must follow; what
// begins before that is committed after it.
func (h *Hub) Begin() (watched func(resource string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	recording := make(map[string]bool, len(h.interests))
	for r := range h.interests {
		recording[r] = true
	}
	h.recording = append(h.recording, recording)
	if len(recording) == 0 {
		return nil
	}
	return func(resource string) bool { return recording[resource] }
}

// Commit tells the changes since the first Begin that is under way, those of
// watched resources, and the revision after them.
func (h *Hub) Commit(revision uint64, changes []state.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range changes {
		h.remember(changes[i])
	}
	h.revision = revision
	if len(h.recording) > 0 {
		h.recording = h.recording[1:]
	}
	h.end()
}

// Abort says that all that began came to nothing.
func (h *Hub) Abort() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recording = nil
	h.end()
}

// end is called when something that began has ended: resources are recorded from
// now on if all that is still under way records them.
func (h *Hub) end() {
	for r, in := range h.interests {
		if !in.ready && h.recorded(r) {
			in.ready, in.since, in.first = true, h.revision, h.next
		}
		if in.watches == 0 && h.now().After(in.until) {
			delete(h.interests, r)
		}
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// recorded reports whether everything under way records a resource.
func (h *Hub) recorded(resource string) bool {
	for _, recording := range h.recording {
		if !recording[resource] {
			return false
		}
	}
	return true
}

func (h *Hub) remember(c state.Change) {
	if len(h.ring) < maxRemembered {
		h.ring = append(h.ring, c)
	} else {
		h.ring[h.next%maxRemembered] = c
		h.first++
	}
	h.next++
}

// Wait waits until the hub was told of a revision.
func (h *Hub) Wait(ctx context.Context, revision uint64) error {
	for {
		h.mu.Lock()
		reached, changed := h.revision >= revision, h.changed
		h.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

var (
	errExpired = errors.New("expired")
	errTooMany = errors.New("too many watches")
)

// place is where a watch is in the memory.
type place struct {
	number   uint64 // of the next change to look at
	revision uint64 // up to which it has told everything
}

// join begins a watch of a resource, of the changes after a revision, for which it
// waits: a command is answered before the hub is told of it. Zero is from now. Also a
// refused one makes the hub record the resource, so that to list and to watch again
// succeeds.
func (h *Hub) join(ctx context.Context, resource string, from uint64) (place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		in := h.interests[resource]
		if in == nil {
			in = &interest{ready: len(h.recording) == 0, since: h.revision, first: h.next}
			h.interests[resource] = in
		}
		in.until = h.now().Add(linger)
		if in.ready && from <= h.revision {
			return h.admit(in, from)
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			h.mu.Lock()
			return place{}, ctx.Err()
		case <-changed:
			h.mu.Lock()
		}
	}
}

func (h *Hub) admit(in *interest, from uint64) (place, error) {
	if h.watches >= maxWatches {
		return place{}, errTooMany
	}
	at := place{number: h.next, revision: h.revision}
	if from != 0 && from < h.revision {
		if from < in.since || h.first > in.first && h.at(h.first).Revision > from+1 {
			return place{}, errExpired
		}
		at = place{number: max(h.first, in.first), revision: from}
	}
	in.watches++
	h.watches++
	return at, nil
}

// at is the remembered change with a number.
func (h *Hub) at(number uint64) *state.Change { return &h.ring[number%maxRemembered] }

func (h *Hub) leave(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches--
	in := h.interests[resource]
	in.watches--
	in.until = h.now().Add(linger)
}

// collect returns the changes of a resource from a place on, at most limit of
// them, moves the place, and returns what to wait for if there are none.
func (h *Hub) collect(resource string, at *place, limit int) (changes []state.Change, wait <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at.number < h.first {
		return nil, nil, errExpired
	}
	for at.number < h.next && len(changes) < limit {
		e := h.at(at.number)
		at.number++
		if e.Resource == resource && e.Revision > at.revision {
			changes = append(changes, *e)
		}
	}
	if at.number == h.next {
		at.revision = max(at.revision, h.revision)
	} else if len(changes) > 0 {
		at.revision = changes[len(changes)-1].Revision
	}
	return changes, h.changed, nil
}
