package propagator

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// target is whom a terminating object needs a call of.
type target struct {
	durable   string // the consumer of its calls
	finalizer string // empty: the agent of the object's kind
}

// targetsOf returns the agent and the external finalizers that a terminating
// object waits for.
func targetsOf(kind *lifecycle.Kind, n *lifecycle.Node) []target {
	var list []target
	if n.Ending() {
		list = append(list, target{durable: bus.AgentDurable(kind.Group, kind.Plural)})
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

// calls publishes the calls of an object's external finalizers and of its
// agent, except for those that are parked, and those beyond the limits of the
// stream. again says that those which wait in the stream may have been lost.
func (r *round) calls(ctx context.Context, snap *state.Snapshot, n *lifecycle.Node, again bool) error {
	kind := snap.Kinds().OfNode(n)
	var object *coppicev1.Object
	var truncated bool
	targets := targetsOf(kind, n)
	for _, t := range targets {
		ok, counted := r.p.quota.admit(n.UID, t.durable)
		if !ok || counted && !again {
			continue
		}
		r.called = append(r.called, n.UID)
		to := bus.Finalize{Realm: r.p.c.Realm, Group: kind.Group, Plural: kind.Plural, UID: n.UID.String(), Finalizer: t.finalizer}.Subject()
		if t.finalizer == "" {
			to = bus.Terminate{Realm: r.p.c.Realm, Group: kind.Group, Plural: kind.Plural, UID: n.UID.String()}.Subject()
		}
		if again {
			if parked, err := r.p.c.Parked(ctx, to); err != nil {
				return err
			} else if parked {
				if r.p.quota.park(n.UID, t.durable, true) {
					r.p.wantRefill()
				}
				continue
			}
			r.p.quota.park(n.UID, t.durable, false)
		}
		if object == nil {
			object, truncated = callObject(n, snap.Body(n))
		}
		var call proto.Message = &coppicev1.FinalizeCall{
			Resource: kind.Resource(), Object: object, Truncated: truncated, Finalizer: t.finalizer, Revision: n.DeletionRevision,
		}
		if t.finalizer == "" {
			call = &coppicev1.TerminateCall{Resource: kind.Resource(), Object: object, Truncated: truncated, Revision: n.DeletionRevision}
		}
		size, err := r.out.call(ctx, callID{n.UID, t.durable}, to, call)
		if err != nil {
			return err
		}
		r.p.quota.weigh(n.UID, t.durable, size)
	}
	return nil
}

// settleCalls stops counting calls that their objects ceased to need while they
// were published: Notify may have said so before they counted. A snapshot that
// is taken now has all that Notify has reported.
func (r *round) settleCalls() error {
	if len(r.called) == 0 {
		return nil
	}
	snap := r.p.c.State.Snapshot()
	for _, u := range r.called {
		if n := snap.Node(u); n != nil && n.Terminating() {
			r.p.release(snap, n)
		} else if snap.Err() == nil && r.p.quota.keep(u) {
			r.p.wantRefill()
		}
	}
	r.called = nil
	return closeSnapshot(snap)
}

// release stops counting the calls that an object does not need any more.
func (p *Propagator) release(snap *state.Snapshot, n *lifecycle.Node) {
	var needed []string
	for _, t := range targetsOf(snap.Kinds().OfNode(n), n) {
		needed = append(needed, t.durable)
	}
	if p.quota.keep(n.UID, needed...) {
		p.wantRefill()
	}
}
