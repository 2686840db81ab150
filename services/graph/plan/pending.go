package plan

import (
	"context"
	"errors"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/cycles"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Release is what the release of a brake lets through.
type Release struct {
	// Revision is the revision of the state for which it was computed.
	Revision uint64
	// UIDs are the objects, owners first.
	UIDs []uid.UID
	// More: the maximum number of objects or the deadline was reached.
	More bool
}

// Matching calls visit for the objects of a kind to which expiry policies apply and for which paused
// returns true, until visit returns false.
type Matching func(paused, visit func(*lifecycle.Node) bool) *lifecycle.Error

// Pending computes what the release of the brake of a kind lets through, at a snapshot and a
// time: the objects of the kind whose deletion the brake pauses, and every object that the
// collector would delete because of them (B4.4). The brake pauses deletions by the collector,
// because of expiry, and because of expiry policies: matching finds the objects of the latter.
//
// The release has at most about maxObjects objects. If ctx reaches its deadline, it has the
// objects that were found until then; if there are none, Pending returns an error. The context of
// the snapshot must end later than ctx, so that the snapshot can still be read.
func Pending(ctx context.Context, snap *state.Snapshot, kind *lifecycle.Kind, now lifecycle.Time, matching Matching, maxObjects int) (*Release, *lifecycle.Error) {
	tx := snap.Begin()
	tx.Unbrake()
	r := &run{
		ctx: ctx, snap: snap, tx: tx, max: maxObjects, revision: snap.Revision(), release: kind,
		rules:   &lifecycle.Context{View: tx, Now: now},
		planned: map[uid.UID]*Object{}, queued: map[uid.UID]bool{}, contained: map[uid.UID]bool{},
	}
	out := &Release{Revision: snap.Revision()}
	err := r.eachPaused(matching, func(events []lifecycle.Event, because uid.UID) bool {
		r.add(events, because)
		return !r.stopped()
	})
	if err == nil {
		for r.settle(); r.answer(); {
			r.settle()
		}
		err = r.refusal
	}
	late := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	if late && len(r.let) > 0 || err != nil && err.Reason == api.ErrRequestEntityTooLarge {
		out.More, err = true, nil // what was found so far is pending
	}
	if err != nil {
		return nil, err
	}
	_ = tx.TakeUnreadable() // B8.1: only replies to clients need bodies
	if err := tx.Err(); err != nil {
		return nil, &lifecycle.Error{Reason: api.ErrInternalError, Message: "plan: " + err.Error()}
	}
	out.UIDs = r.let
	return out, nil
}

// eachPaused calls visit with the events by which the objects of the kind to be released would be
// deleted, until visit returns false.
func (r *run) eachPaused(matching Matching, visit func(events []lifecycle.Event, because uid.UID) bool) *lifecycle.Error {
	more := true
	paused := func(d *lifecycle.Node) bool {
		return r.tx.Kinds().OfNode(d) == r.release && !d.Terminating() && lifecycle.Braked(r.snap, d)
	}
	var after uid.UID
	for more {
		var rows []uid.UID
		more = false
		r.snap.EachWorkRow(after, func(u uid.UID, row state.WorkRow) bool {
			after = u
			if row.Evaluate || row.Drain {
				rows = append(rows, u)
			}
			more = len(rows) == atOnce
			return !more
		})
		for _, u := range rows {
			n := r.snap.Node(u)
			if pending := lifecycle.PendingOf(r.snap, u, n); pending.Evaluate && pending.EvaluateAt <= r.rules.Now {
				r.eachDependent(u, func(d *lifecycle.Node) {
					if paused(d) && lifecycle.Evaluate(r.snap, d, r.rules.Now).Decision == lifecycle.Pause {
						more = visit(lifecycle.Collect(r.rules, d), u) && more
					}
				})
			}
			if n != nil && n.Draining() {
				r.eachContent(n, func(d *lifecycle.Node) {
					if paused(d) {
						// What waits for the Pods of a namespace is paused too.
						more = visit(lifecycle.DrainAfter(r.rules, n, d, 0), u) && more
					}
				})
			}
			if r.stopped() {
				return r.refusal
			}
		}
	}
	if !r.eachExpired(paused, visit) {
		return r.refusal
	}
	more = true
	err := matching(paused, func(n *lifecycle.Node) bool {
		// It may be deleted in this plan already.
		if d := r.tx.Node(n.UID); d != nil && paused(d) {
			// Its notice, if the policy gives one, has ended.
			events, _, _ := lifecycle.ExpireMatching(r.rules, d, nil, lifecycle.Match{Revision: d.Revision, Applies: true, At: r.rules.Now, Seen: r.rules.Now})
			more = len(events) == 0 || visit(events, d.UID)
		}
		return more
	})
	if err != nil || !more {
		r.refuse(err)
		return r.refusal
	}
	if r.snap.Settings().UnreachableCycles != lifecycle.CollectCycles {
		return nil
	}
	found, _ := cycles.Unreachable(r.snap, r.rules.Now)
	for _, members := range found {
		for _, u := range members {
			if n := r.tx.Node(u); n != nil && paused(n) {
				visit(cycles.Collect(r.rules, members), u)
				break
			}
		}
	}
	return r.refusal
}

// eachExpired calls visit for the objects that have expired and are paused, until it returns false.
func (r *run) eachExpired(paused func(*lifecycle.Node) bool, visit func(events []lifecycle.Event, because uid.UID) bool) bool {
	var after state.ExpiryCursor
	for more := true; more; {
		var found []uid.UID
		r.snap.EachExpired(r.rules.Now, after, func(c state.ExpiryCursor) bool {
			found, after = append(found, c.UID), c
			return len(found) < atOnce
		})
		more = len(found) == atOnce
		for _, u := range found {
			d := r.tx.Node(u)
			if d == nil || !paused(d) {
				continue // it may be deleted in this plan already
			}
			events, _ := lifecycle.Expire(r.rules, d, lifecycle.DueAt(d), r.rules.Now)
			if len(events) > 0 && !visit(events, u) {
				return false
			}
		}
	}
	return true
}

// stays reports whether an object is not let through by the release that is planned,
// because the brake of another kind paused its deletion before.
func (r *run) stays(d *lifecycle.Node) bool {
	if r.release == nil || r.tx.Kinds().OfNode(d) == r.release || !lifecycle.Braked(r.snap, d) {
		return false
	}
	n := r.snap.Node(d.UID)
	return n != nil && lifecycle.Evaluate(r.snap, n, r.rules.Now).Decision == lifecycle.Pause
}

// brakes returns the brakes that the plan would trip, ordered by resource.
func (r *run) brakes() (list []*coppicev1.PlanBrake) {
	for _, k := range r.snap.Kinds().All() {
		n := r.counted[k]
		if n == 0 {
			continue
		}
		b, objects := r.snap.Brake(k)
		if room := b.Room(lifecycle.BrakeOf(r.snap, k), objects, r.rules.Now); n > room {
			list = append(list, &coppicev1.PlanBrake{Resource: k.Resource(), Deletions: n, Room: room})
		}
	}
	return list
}
