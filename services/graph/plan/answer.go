package plan

import (
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// answer applies what every external blocker of the plan's objects would do. It reports
// whether there was any.
func (r *run) answer() (answered bool) {
	for _, o := range r.order { // this adds no object to the plan
		if r.stopped() {
			return false
		}
		n := r.tx.Node(o.Node.UID)
		if n == nil || !n.Terminating() {
			continue
		}
		before := len(o.Blockers)
		answered = r.endImport(n) || answered
		r.acknowledge(o, n)
		r.confirm(o, n)
		if !lifecycle.CallsFinalizers(r.tx.Kinds().OfNode(n), n) {
			answered = answered || len(o.Blockers) > before
			continue
		}
		for _, f := range n.Finalizers {
			if !lifecycle.IsBuiltinFinalizer(f) {
				o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_FINALIZER, Name: f})
				out, err := lifecycle.RemoveFinalizer(r.rules, r.key(n), f, nil)
				r.outcome(out, err, o.Node.UID)
			}
		}
		answered = answered || len(o.Blockers) > before
	}
	return answered || r.podsLate()
}

// podsLate assumes that the Pods of namespaces stay until the other contents stop waiting for
// them. It reports whether there was such a namespace.
func (r *run) podsLate() (any bool) {
	for _, o := range r.order {
		if n := r.tx.Node(o.Node.UID); n != nil && !o.podsLate && lifecycle.PodsUntil(r.tx, n) > r.rules.Now {
			o.podsLate, any = true, true
			r.enqueue(n.UID, n.UID)
		}
	}
	return any
}

// endImport ends the import session for which a built-in finalizer of n waits. It reports
// whether there was one.
func (r *run) endImport(n *lifecycle.Node) bool {
	id := n.ImportSession
	if !n.AwaitsSession() || r.tx.Session(id).Expires <= r.rules.Now {
		return false
	}
	r.tx.TouchSession(id, r.rules.Now, true)
	for _, o := range r.order {
		if now := r.tx.Node(o.Node.UID); now != nil && now.ImportSession == id {
			r.enqueue(now.UID, now.UID)
		}
	}
	return true
}

// acknowledge applies what the controller of an object does: it observes the generation of
// the deletion.
func (r *run) acknowledge(o *Object, n *lifecycle.Node) {
	if n.Acknowledged() {
		return
	}
	o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_GENERATION})
	seen := *n
	seen.ObservedGeneration = n.AwaitedGeneration
	r.add([]lifecycle.Event{{Type: lifecycle.ObjectUpdated, UID: n.UID, Object: lifecycle.Object{Node: &seen}}}, n.UID)
}

// confirm applies what the agent of an object does: it confirms the deletion.
func (r *run) confirm(o *Object, n *lifecycle.Node) {
	if !lifecycle.CallsAgent(n) {
		return
	}
	o.block(Blocker{Type: coppicev1.PlanBlocker_TYPE_AGENT})
	none := int64(0)
	out, err := lifecycle.Delete(r.rules, r.key(n), "", &coppicev1.DeleteOptions{GracePeriodSeconds: &none})
	r.outcome(out, err, n.UID)
}

func (r *run) outcome(out *lifecycle.Outcome, err *lifecycle.Error, u uid.UID) {
	switch {
	case err != nil && err.Reason == api.ErrNotFound: // it was removed when another blocker had done its part
	case err != nil:
		if o := r.planned[u]; o != nil && !r.visible(o.Node) {
			err = elsewhere(err)
		}
		r.refuse(err)
	default:
		r.add(out.Events, u)
	}
}

func (r *run) key(n *lifecycle.Node) lifecycle.Key { return lifecycle.KeyOf(r.tx, n) }
