// Package watch sends clients the changes of objects, out of a bounded memory of
// recent changes.
//
// The Hub gets the changes of each commit, in order. It keeps those of resources
// that are watched, or were not long ago, in one queue for each resource. All queues
// together have at most Limits.Bytes: beyond that the largest loses its oldest
// changes, so that many or large changes of one resource cost the watchers of others
// nothing. What every watch has sent is kept for those that resume, for a while.
//
// A watch is one goroutine that reads its queue at its own pace. One that falls
// behind what is kept ends, as does one that resumes from before it, with
// lifecycle.ReasonExpired: the client lists again. Limits bound also how many
// watches there are, for each actor and in all, and how many encode and send at once.
package watch

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// retention is for how long a change is kept that no watch needs any more, and for
// how long a resource is recorded after its last watch.
const retention = 2 * time.Minute

// Limits bound a Hub. Zero fields have defaults.
type Limits struct {
	// Bytes and Changes are how much is kept; 64 MiB, and 65,536.
	Bytes, Changes int
	// Watches and PerActor are how many watches there are, in all and of one actor;
	// 4,096 and 1,024.
	Watches, PerActor int
	// States and StatesPerActor are how many watches send the objects as they are at
	// once; 4 and 2. Others wait.
	States, StatesPerActor int
	// Sending is how many watches encode and send changes at once; 16.
	Sending int
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.Bytes, 64 << 20}, {&l.Changes, 1 << 16}, {&l.Watches, 4096}, {&l.PerActor, 1024},
		{&l.States, 4}, {&l.StatesPerActor, 2}, {&l.Sending, 16},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return l
}

// Hub keeps changes and wakes the watches that wait for them. It is safe for
// concurrent use.
type Hub struct {
	now     func() time.Time
	limits  Limits
	watches *admission.Limiter
	states  *admission.Limiter
	sending *admission.Limiter

	mu        sync.Mutex
	revision  uint64 // of the newest commit
	interests map[string]*interest
	starting  int               // interests that are not ready
	recording []map[string]bool // resources that each commit under way records
	bytes     int               // kept in all queues
	changes   int               // kept in all queues
	changed   chan struct{}     // closed and replaced with each commit
	sweeping  bool              // a sweep is due
}

// NewHub returns a hub for a state that is at a revision.
func NewHub(revision uint64, now func() time.Time, limits Limits) *Hub {
	l := limits.withDefaults()
	return &Hub{
		now: now, limits: l, revision: revision, interests: map[string]*interest{}, changed: make(chan struct{}),
		watches: admission.New(l.Watches, l.PerActor), states: admission.New(l.States, l.StatesPerActor), sending: admission.New(l.Sending, l.Sending),
	}
}

// Held is how much a Hub keeps.
type Usage struct {
	Bytes   int // about, of changes
	Changes int
	Watches int
}

// Held returns how much the hub keeps now.
func (h *Hub) Usage() Usage {
	watches, _ := h.watches.Used("")
	h.mu.Lock()
	defer h.mu.Unlock()
	return Usage{Bytes: h.bytes, Changes: h.changes, Watches: watches}
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

// Commit adds the changes since the first Begin that is under way, those of
// watched resources, and the revision after them.
func (h *Hub) Commit(revision uint64, changes []state.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for i := range changes {
		if in := h.interests[changes[i].Resource]; in != nil {
			h.keep(in, newRecord(&changes[i], now))
		}
	}
	h.revision = revision
	if len(h.recording) > 0 {
		h.recording = h.recording[1:]
	}
	h.end()
}

// Abort records that all commits that began have failed.
func (h *Hub) Abort() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recording = nil
	h.end()
}

// end is called when something that began has ended: resources are recorded from
// now on if all that is still under way records them.
func (h *Hub) end() {
	if h.starting > 0 {
		for r, in := range h.interests {
			if !in.ready && h.recorded(r) {
				in.ready, in.since = true, h.revision
				h.starting--
			}
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

// Wait waits until the hub has got the commit of a revision.
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
