package propagator

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// target is an external finalizer or an agent that must be called for a terminating object.
type target struct {
	durable   string // the consumer of its calls
	finalizer string // empty: the agent of the object's kind
}

// targetsOf returns the agent and the external finalizers that a terminating
// object waits for.
func targetsOf(kind *lifecycle.Kind, n *lifecycle.Node) []target {
	var list []target
	if lifecycle.CallsAgent(n) {
		list = append(list, target{durable: bus.AgentDurable(kind.Group, kind.Plural)})
	}
	if !lifecycle.CallsFinalizers(kind, n) {
		return list
	}
	seen := map[string]bool{}
	for _, f := range n.Finalizers {
		if !lifecycle.IsBuiltinFinalizer(f) && !seen[f] {
			seen[f] = true
			list = append(list, target{durable: bus.FinalizerDurable(f), finalizer: f})
		}
	}
	return list
}

// calls publishes the calls of an object's external finalizers and of its agent,
// except for those that are parked, and those beyond the limits of the stream. Calls
// that count already are published again only if they may have been lost. What a round has no
// room for waits as rows, too: see refill.
func (b *publisher) calls(ctx context.Context, snap *state.Snapshot, n *lifecycle.Node, f queue.Flags) error {
	again := f&lost != 0
	kind := snap.Kinds().OfNode(n)
	var object []byte
	var truncated bool
	for _, t := range targetsOf(kind, n) {
		full := b.most > 0 && b.calledBytes >= b.most && !again
		ok, counted := b.p.quota.admit(n.UID, t.durable, !full)
		b.refills = b.refills || full && !ok
		if !ok || counted && !again {
			continue
		}
		if last := len(b.called) - 1; last < 0 || b.called[last] != n.UID {
			b.called = append(b.called, n.UID)
		}
		to := bus.Finalize{Realm: b.p.c.Realm, Group: kind.Group, Plural: kind.Plural, UID: n.UID.String(), Finalizer: t.finalizer}.Subject()
		if t.finalizer == "" {
			to = bus.Terminate{Realm: b.p.c.Realm, Group: kind.Group, Plural: kind.Plural, UID: n.UID.String()}.Subject()
		}
		if again {
			parked, known := b.p.isParked(ctx, to)
			if !known {
				continue // the next republication asks again
			}
			if parked {
				if b.p.quota.park(n.UID, t.durable, true) {
					b.p.wantRefill()
				}
				continue
			}
			b.p.quota.park(n.UID, t.durable, false)
		}
		about := callID{n.UID, t.durable, f&unpublishable != 0}
		if object == nil {
			var err error
			if object, truncated, err = encodeCallObject(snap, n); err != nil {
				b.out.skip(about, fmt.Errorf("%s: %w", to, err))
				return nil
			}
		}
		var call proto.Message = &coppicev1.FinalizeCall{
			Resource: kind.Resource(), Truncated: truncated, Finalizer: t.finalizer, Revision: n.DeletionRevision, Format: worker.Format,
		}
		if t.finalizer == "" {
			call = &coppicev1.TerminateCall{Resource: kind.Resource(), Truncated: truncated, Revision: n.DeletionRevision, Format: worker.Format}
		}
		size, err := b.out.call(ctx, about, to, call, object, b.p.startSpan(to, just(n.UID)))
		if err != nil {
			return err
		}
		b.calledBytes += size
		b.p.quota.weigh(n.UID, t.durable, size)
	}
	return nil
}

// The maximum time in which NATS says whether a call is parked, and the pause after it did not.
const (
	parkedTime  = 500 * time.Millisecond
	parkedPause = 10 * time.Second
)

// isParked reports whether a call is parked, and whether that is known. A client that parks more work than the NATS server
// can store at once delays the reads of parked work, and must not delay the work of others.
func (p *Propagator) isParked(ctx context.Context, subject string) (parked, known bool) {
	now := p.now()
	if now < lifecycle.Time(p.parkedUnknown.Load()).Add(parkedPause) {
		return false, false
	}
	limited, cancel := context.WithTimeout(ctx, parkedTime)
	defer cancel()
	parked, err := p.c.Parked(limited, subject)
	if err != nil && ctx.Err() == nil {
		p.c.Log.Warn("cannot read parked work; lost calls are published later", "error", err)
		p.parkedUnknown.Store(int64(now))
	}
	return parked, err == nil
}

// encodeCallObject returns the object of calls as JSON, and whether it was reduced.
func encodeCallObject(snap *state.Snapshot, n *lifecycle.Node) (data []byte, truncated bool, err error) {
	var object *coppicev1.Object
	body := snap.Body(n)
	if snap.TakeUnreadable() != nil { // B8.1: the program finds that out when it reads the object
		object, truncated = briefObject(lifecycle.Object{Node: n}), true
	} else {
		object, truncated = callObject(n, body, maxCallObject)
	}
	data, err = manifest.ToJSON(object)
	return data, truncated, err
}

// settleCalls stops counting calls that their objects ceased to need while they were
// published: Notify may have released them before they counted. A snapshot that is
// taken now has every change that Notify has reported.
func (b *publisher) settleCalls() error {
	if len(b.called) == 0 {
		return nil
	}
	called := b.called
	b.called = nil
	return b.p.pages(func(snap *state.Snapshot) (bool, error) {
		for _, u := range called {
			if n := snap.Node(u); n != nil && n.Terminating() {
				b.p.releaseCalls(snap, n)
			} else if snap.Err() == nil && b.p.quota.release(u) {
				b.p.wantRefill()
			}
		}
		return false, nil
	})
}

// releaseCalls stops counting the calls that an object does not need any more.
func (p *Propagator) releaseCalls(snap *state.Snapshot, n *lifecycle.Node) {
	var needed []string
	for _, t := range targetsOf(snap.Kinds().OfNode(n), n) {
		needed = append(needed, t.durable)
	}
	if p.quota.keep(n.UID, needed...) {
		p.wantRefill()
	}
}
