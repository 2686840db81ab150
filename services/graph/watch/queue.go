package watch

import (
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// interest is a resource that is watched, or was recently; or all resources.
type interest struct {
	places map[*place]struct{} // of its watches
	until  time.Time           // when it is deleted, if it has no watches
	ready  bool                // false while a commit is in progress that does not record it
	since  uint64              // every change after this revision is in the queue

	queue   []record
	first   uint64 // number of queue[0]
	bytes   int    // of the queue
	changed chan struct{}
}

// next returns the number of the next change.
func (in *interest) next() uint64 { return in.first + uint64(len(in.queue)) }

// record is a change in a queue.
type record struct {
	resource              string // of a change in the queue of all resources
	reason                coppicev1.Reason
	revision              uint64
	before, after         *lifecycle.Node
	beforeBody, afterBody *coppicev1.Body
	bytes                 int
	at                    time.Time
}

// newRecord returns what watches need of a change. A watch sends the previous object only
// if it does not see the new one. So the body of the previous object is dropped if both
// have the same labels and neither or both are initialized.
func newRecord(c *state.Change, now time.Time) record {
	r := record{
		reason: c.Event.Reason, revision: c.Revision, at: now,
		before: c.Before, after: c.After, beforeBody: c.BeforeBody, afterBody: c.AfterBody,
	}
	switch {
	case r.after == nil:
		r.afterBody = nil
	case r.before != nil && r.before.Uninitialized() == r.after.Uninitialized() &&
		maps.Equal(r.beforeBody.GetLabels(), r.afterBody.GetLabels()):
		r.beforeBody = r.afterBody
	}
	r.bytes = recordSize + nodeSize(r.before) + nodeSize(r.after) + proto.Size(r.afterBody)
	if r.beforeBody != r.afterBody {
		r.bytes += proto.Size(r.beforeBody)
	}
	return r
}

// The approximate memory of a record, without strings, in bytes.
const (
	recordSize    = 512
	ownerSize     = 128
	finalizerSize = 64
)

func nodeSize(n *lifecycle.Node) int {
	if n == nil {
		return 0
	}
	return recordSize + len(n.Namespace) + len(n.Name) + ownerSize*(len(n.Owners)+len(n.Uses)) + finalizerSize*(len(n.Finalizers)+len(n.Initializers))
}

// keep adds a change to a queue, and drops old changes if there is no room.
func (h *Hub) keep(in *interest, r record) {
	in.queue = append(in.queue, r)
	in.bytes += r.bytes
	h.count(r.bytes, 1)
	for h.bytes > h.limits.Bytes || h.changes > h.limits.Changes {
		h.drop(h.largest(h.bytes > h.limits.Bytes), 1)
	}
	close(in.changed)
	in.changed = make(chan struct{})
	h.sweepLater()
}

// count records that the hub keeps more, or less.
func (h *Hub) count(bytes, changes int) {
	h.bytes += bytes
	h.changes += changes
	h.process.count(h, bytes, changes)
}

// largest returns the interest with the largest queue, in bytes or in changes.
func (h *Hub) largest(inBytes bool) (found *interest) {
	for _, in := range h.interests {
		if found == nil || in.takes(inBytes) > found.takes(inBytes) {
			found = in
		}
	}
	return found
}

func (in *interest) takes(inBytes bool) int {
	if inBytes {
		return in.bytes
	}
	return len(in.queue)
}

// drop drops the oldest changes of a queue.
func (h *Hub) drop(in *interest, n int) {
	bytes := in.bytes
	for i := range n {
		r := &in.queue[i]
		in.since = r.revision
		in.bytes -= r.bytes
		*r = record{} // releases the memory: the array is kept until the queue outgrows it
	}
	in.queue = in.queue[n:]
	if len(in.queue) == 0 {
		in.queue = nil
	}
	in.first += uint64(n)
	if n > 0 {
		h.count(in.bytes-bytes, -n)
	}
}

// sweepLater schedules a sweep, unless one is scheduled.
func (h *Hub) sweepLater() {
	if !h.sweeping && !h.closed {
		h.sweeping = true
		time.AfterFunc(retention/4, h.sweep)
	}
}

// sweep drops changes that are older than retention and that every watch has sent, and
// resources that are not watched any more.
func (h *Hub) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sweeping = false
	if h.closed {
		return
	}
	now := h.now()
	for resource, in := range h.interests {
		if len(in.places) == 0 && now.After(in.until) {
			h.drop(in, len(in.queue))
			h.forget(resource, in)
			continue
		}
		needed := in.next()
		for at := range in.places {
			needed = min(needed, max(at.number, in.first))
		}
		n := 0
		for uint64(n) < needed-in.first && now.Sub(in.queue[n].at) > retention {
			n++
		}
		h.drop(in, n)
	}
	if len(h.interests) > 0 {
		h.sweepLater()
	}
}

func (h *Hub) forget(resource string, in *interest) {
	if !in.ready {
		h.starting--
	}
	delete(h.interests, resource)
}
