package watch

import (
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/admission"
)

// processFactor is how many times the limits of one realm the limits of a process are: with 2, a
// realm that is alone gets all that its own limits allow.
const processFactor = 2

// Process bounds the hubs of all realms of a process together. It is safe for concurrent use.
//
// Its limits are twice those of one realm. Places for watches are shared as
// admission.NewShared says. If the changes of all hubs exceed the limit, the hub that
// keeps most drops its oldest changes, so that a realm which keeps less than an even share, the limit
// divided by the number of realms, loses none to the others.
type Process struct {
	bytes, changes           int // the limits of kept
	watches, states, sending *admission.Limiter

	mu   sync.Mutex
	hubs map[*Hub]kept // of the realms that run
	all  kept          // of all hubs
}

// kept is what is kept in queues.
type kept struct{ bytes, changes int }

// NewProcess returns a Process for realms that have these limits each.
func NewProcess(realm Limits) *Process {
	l := realm.withDefaults()
	return &Process{
		bytes: processFactor * l.Bytes, changes: processFactor * l.Changes, hubs: map[*Hub]kept{},
		watches: admission.NewShared(processFactor * l.Watches),
		states:  admission.NewShared(processFactor * l.States),
		sending: admission.NewShared(processFactor * l.Sending),
	}
}

// NewHub returns a hub for a realm, at a revision. Close must be called when the realm stops.
func (p *Process) NewHub(realm string, revision uint64, now func() time.Time, limits Limits) *Hub {
	h := NewHub(revision, now, limits)
	h.process = p
	h.watches.Within(p.watches, realm)
	h.states.Within(p.states, realm)
	h.sending.Within(p.sending, realm)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hubs[h] = kept{}
	return h
}

// Usage returns what all hubs keep now.
func (p *Process) Usage() Usage {
	watches, _ := p.watches.Used("")
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{Bytes: p.all.bytes, Changes: p.all.changes, Watches: watches}
}

// count records that a hub keeps more, or less. The hub's lock is held: it is always taken before
// that of the Process.
func (p *Process) count(h *Hub, bytes, changes int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.hubs[h]
	if !ok {
		return // closed
	}
	p.hubs[h] = kept{k.bytes + bytes, k.changes + changes}
	p.all.bytes += bytes
	p.all.changes += changes
}

// forget removes a hub, which keeps nothing any more.
func (p *Process) forget(h *Hub) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.hubs, h)
}

// reclaim has the hubs that keep most drop changes until the limits are met. No lock of a hub may
// be held.
func (p *Process) reclaim() {
	if p == nil {
		return
	}
	for {
		h, most := p.largest()
		if h == nil {
			return
		}
		h.shrink(most)
	}
}

// largest returns the hub that keeps most of what exceeds a limit, nil if nothing does, and what it
// may keep: as little as the next one keeps, and not less than meets the limit.
func (p *Process) largest() (found *Hub, most kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes, changes := p.all.bytes-p.bytes, p.all.changes-p.changes
	if bytes <= 0 && changes <= 0 {
		return nil, kept{}
	}
	size := func(k kept) int {
		if bytes > 0 {
			return k.bytes
		}
		return k.changes
	}
	first, second := -1, 0
	for h, k := range p.hubs {
		switch n := size(k); {
		case n > first:
			found, first, second = h, n, max(first, 0)
		case n > second:
			second = n
		}
	}
	if bytes > 0 {
		return found, kept{bytes: max(second, first-bytes), changes: -1}
	}
	return found, kept{bytes: -1, changes: max(second, first-changes)}
}

// shrink drops the oldest changes of the largest queues until the hub keeps as little as most says, in
// bytes or, if those are negative, in changes; at least one.
func (h *Hub) shrink(most kept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	inBytes := most.bytes >= 0
	for first := true; h.changes > 0; first = false {
		enough := h.changes <= most.changes
		if inBytes {
			enough = h.bytes <= most.bytes
		}
		if enough && !first {
			return
		}
		h.drop(h.largest(inBytes), 1)
	}
}

// Close releases what the hub keeps, and has it keep nothing any more. Watches must have ended.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for resource, in := range h.interests {
		h.drop(in, len(in.queue))
		h.forget(resource, in)
	}
	h.process.forget(h)
}
