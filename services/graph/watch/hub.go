// Package watch sends the changes of objects to clients, from a bounded memory of recent
// changes.
//
// The [Hub] receives the changes of each commit, in order. It keeps the changes of resources
// that are watched, or were recently, in one queue for each resource. All queues together
// have at most [Limits.Bytes]. If they exceed that, the largest queue drops its oldest
// changes, so that many or large changes of one resource do not affect the watches of
// others. Changes that every watch has sent are kept for two minutes, for watches that
// resume.
//
// A watch of the graph has a queue of its own, with the changes of all resources, without the
// contents of objects: see [Hub.ServeGraph].
//
// A watch is one goroutine that reads its queue at its own pace. If it needs a change that
// was dropped, because it is slow or resumes from an old revision, it ends with
// [api.ErrExpired], and the client lists again. [Limits] also bound the number of
// watches, for each actor and in all, and how many encode and send at the same time.
// A [Process] bounds all this for the realms of a process together.
package watch

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// retention is the time for which a change is kept after every watch has sent it, and for
// which a resource is recorded after its last watch.
const retention = 2 * time.Minute

// Limits bound a Hub. Zero fields have defaults.
type Limits struct {
	// Bytes and Changes bound what is kept; 64 MiB and 65,536 if zero.
	Bytes, Changes int
	// Watches and PerActor are the maximum numbers of watches, in all and of one actor;
	// 4,096 and 1,024 if zero.
	Watches, PerActor int
	// States and StatesPerActor are the maximum numbers of watches that send the current
	// objects at the same time, in all and of one actor; 4 and 2 if zero. Others wait.
	States, StatesPerActor int
	// Sending is the maximum number of watches that encode and send changes at the same
	// time; 16 if zero.
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
	process *Process // nil for none

	mu        sync.Mutex
	revision  uint64 // of the newest commit
	interests map[string]*interest
	starting  int               // number of interests that are not ready
	recording []map[string]bool // the resources that each commit in progress records
	bytes     int               // kept in all queues
	changes   int               // kept in all queues
	changed   chan struct{}     // closed and replaced with each commit
	sweeping  bool              // a sweep is scheduled
	closed    bool
}

// NewHub returns a hub for a state at a revision, outside a Process.
func NewHub(revision uint64, now func() time.Time, limits Limits) *Hub {
	l := limits.withDefaults()
	return &Hub{
		now: now, limits: l, revision: revision, interests: map[string]*interest{}, changed: make(chan struct{}),
		watches: admission.New(l.Watches, l.PerActor), states: admission.New(l.States, l.StatesPerActor), sending: admission.New(l.Sending, l.Sending),
	}
}

// Usage is the amount of what a Hub keeps.
type Usage struct {
	Bytes   int // approximate size of the changes
	Changes int
	Watches int
}

// Usage returns what the hub keeps now.
func (h *Hub) Usage() Usage {
	watches, _ := h.watches.Used("")
	h.mu.Lock()
	defer h.mu.Unlock()
	return Usage{Bytes: h.bytes, Changes: h.changes, Watches: watches}
}

// Revision returns the revision of the newest commit.
func (h *Hub) Revision() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision
}

// Begin must be called before a commit is decided. It returns a function that reports
// whether to record the changes of a resource, nil if none are recorded. Commit or Abort
// must follow. Commits end in the order in which they began.
func (h *Hub) Begin() (watched func(resource string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	recording := make(map[string]bool, len(h.interests))
	for r := range h.interests {
		recording[r] = true
	}
	h.recording = append(h.recording, recording)
	switch {
	case len(recording) == 0:
		return nil
	case recording[allResources]:
		return func(resource string) bool { return resource != "" } // it is empty if the kind is not known
	}
	return func(resource string) bool { return recording[resource] }
}

// Commit ends the oldest commit that has begun. It adds the commit's changes, those of
// watched resources, and the revision after them.
func (h *Hub) Commit(revision uint64, changes []state.Change) {
	h.commit(revision, changes)
	h.process.reclaim()
}

func (h *Hub) commit(revision uint64, changes []state.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	all := h.interests[allResources]
	for i := range changes {
		if all != nil && !h.closed {
			h.keep(all, newGraphRecord(&changes[i], now))
		}
		if in := h.interests[changes[i].Resource]; in != nil && !h.closed {
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

// end is called when a commit has ended. An interest becomes ready when all commits in
// progress record its resource.
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

// recorded reports whether all commits in progress record a resource.
func (h *Hub) recorded(resource string) bool {
	for _, recording := range h.recording {
		if !recording[resource] && !recording[allResources] {
			return false
		}
	}
	return true
}

// Wait waits until the hub has the commit of a revision, or returns the error of ctx.
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
