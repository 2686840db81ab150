package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

var errExpired = errors.New("expired")

// place is the position of a watch in the queue of its resource.
type place struct {
	in       *interest
	number   uint64 // of the next change to read
	revision uint64 // up to which it has sent everything
}

// start is where a watch begins.
type start struct {
	resource  string
	from, min uint64 // see Target.From and Target.MinRevision
}

// join begins a watch: of the changes after t.from, or, if that is zero, from now. It waits
// for t.from and t.min, because a command is answered before the hub receives its
// commit. The hub records the resource from now on even if join fails, so that the client
// can list and watch again. After a success, leave must follow.
func (h *Hub) join(ctx context.Context, t start) (*place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		in := h.interests[t.resource]
		if in == nil {
			in = &interest{
				ready: h.recorded(t.resource), since: h.revision, places: map[*place]struct{}{}, changed: make(chan struct{}),
			}
			if !in.ready {
				h.starting++
			}
			h.interests[t.resource] = in
			h.sweepLater()
		}
		in.until = h.now().Add(retention)
		if in.ready && max(t.from, t.min) <= h.revision {
			return h.admit(in, t)
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			h.mu.Lock()
			return nil, ctx.Err()
		case <-changed:
			h.mu.Lock()
		}
	}
}

func (h *Hub) admit(in *interest, t start) (*place, error) {
	at := &place{in: in, number: in.next(), revision: h.revision}
	if t.from != 0 && t.from < h.revision {
		if t.from < in.since {
			return nil, errExpired
		}
		at.number, at.revision = in.first, t.from
	}
	in.places[at] = struct{}{}
	return at, nil
}

// of names what has too few places: the process, or this replica of the realm.
func of(err error) string {
	if errors.Is(err, admission.ErrShared) {
		return "this process"
	}
	return "this replica"
}

// tooMany returns the error for a watch beyond the limits, for which why says which.
func (h *Hub) tooMany(actor string, why error) *lifecycle.Error {
	e := &lifecycle.Error{Reason: api.ErrTooManyRequests, RetryAfter: time.Second}
	if errors.Is(why, admission.ErrShared) {
		all, _ := h.process.watches.Used("")
		its, _ := h.watches.Used("")
		most, _ := h.process.watches.Limits()
		e.Message = fmt.Sprintf("this process has %d watches open, %d of them of this realm; it takes %d of all realms, and one more of a realm only while more are free than the realm has; try again later", all, its, most)
		return e
	}
	open, its := h.watches.Used(actor)
	if most, each := h.watches.Limits(); its >= each {
		e.Message = fmt.Sprintf("actor %q has %d watches open at this replica, as many as one may have; end one, or try again later", actor, its)
	} else {
		e.Message = fmt.Sprintf("this replica has %d watches open, and takes %d; try again later", open, most)
	}
	return e
}

func (h *Hub) leave(at *place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(at.in.places, at)
	at.in.until = h.now().Add(retention)
	h.sweepLater()
}

// The maximum that a watch takes out of its queue at once.
const (
	batchSize  = 500     // changes
	batchBytes = 1 << 20 // of changes; one change may have more
)

// collect returns changes from a place on, and moves the place behind them. If there are
// none, it returns a channel that is closed at the next commit.
func (h *Hub) collect(at *place) (changes []record, wait <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := at.in
	if at.number < in.first {
		if at.revision < in.since {
			return nil, nil, errExpired
		}
		at.number = in.first
	}
	for size := 0; at.number < in.next() && len(changes) < batchSize && size < batchBytes; at.number++ {
		r := &in.queue[at.number-in.first]
		if r.revision > at.revision {
			changes = append(changes, *r)
			size += r.bytes
		}
	}
	if at.number == in.next() {
		at.revision = max(at.revision, h.revision)
	} else if len(changes) > 0 {
		at.revision = changes[len(changes)-1].revision
	}
	return changes, in.changed, nil
}
