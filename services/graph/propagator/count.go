package propagator

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// The types of pending work, as metrics and StatusReply name them.
const (
	TypeEvaluate  = "evaluate"  // dependents that processors can act on
	TypeUnknown   = "unknown"   // dependents that only unknown owners keep
	TypeBraked    = "braked"    // dependents whose deletion a tripped brake pauses
	TypeOrphan    = "orphan"    // dependents to be orphaned
	TypeFinish    = "finish"    // built-in finalizers that may be done
	TypeExamine   = "examine"   // owners that wait, and whose dependents are to be examined
	TypeFinalize  = "finalize"  // external finalizers to be called
	TypeTerminate = "terminate" // agents to be called
	TypeBlocked   = "blocked"   // objects that are blocked by dependents or users which are being deleted
	TypeDrain     = "drain"     // namespaces and kinds whose contents are being deleted
	TypeProtected = "protected" // dependents that stay because they are protected
)

// Types has all types of pending work, in the order of replies.
var Types = []string{TypeEvaluate, TypeUnknown, TypeBraked, TypeOrphan, TypeFinish, TypeExamine, TypeFinalize, TypeTerminate, TypeBlocked, TypeDrain, TypeProtected}

var queueOf = map[string]string{TypeEvaluate: bus.QueueDirty, TypeOrphan: bus.QueueOrphan, TypeFinish: bus.QueueFinish, TypeDrain: bus.QueueDrain}

// How many dependents a count reads at most to distinguish work that processors can do from
// dependents that only unknown owners keep. What is beyond it counts as work.
const (
	republishDependents = 20_000    // of Republish, every ten seconds
	defaultMaxCounted   = 1_000_000 // the default of Config.MaxCounted
)

// Count counts pending work for metrics, as Status does for clients, so that both agree whether
// the realm is idle. It reads all rows, and of those that wait for external finalizers the nodes of
// the first metricFinalize. If ctx ends first, the error wraps that of ctx.
func (p *Propagator) Count(ctx context.Context) (*coppicev1.RepublishReply, []FinalizerCount, error) {
	var waiting []stuckObject
	counted, err := p.count(ctx, p.c.MaxCounted, func(u uid.UID, row state.WorkRow) {
		if row.Finalize && len(waiting) < metricFinalize {
			waiting = append(waiting, stuckObject{u, row.Since})
		}
	})
	if err != nil || len(waiting) == 0 {
		return counted, nil, err
	}
	finalizers, err := p.countFinalizers(waiting)
	return counted, finalizers, err
}

// metricFinalize is the maximum number of objects whose finalizers are counted for metrics.
const metricFinalize = 20_000

// FinalizerCount says for how many objects an external finalizer is pending, and since when for the
// first of them.
type FinalizerCount struct {
	Name    string
	Objects int
	Oldest  lifecycle.Time
}

// countFinalizers counts the external finalizers that are called for objects, in the order of their
// oldest objects.
func (p *Propagator) countFinalizers(waiting []stuckObject) ([]FinalizerCount, error) {
	snap := p.c.State.Snapshot()
	byName := map[string]*FinalizerCount{}
	for _, o := range waiting {
		n := snap.Node(o.uid)
		if n == nil || !n.Terminating() {
			continue
		}
		for _, t := range targetsOf(snap.Kinds().OfNode(n), n) {
			if t.finalizer == "" {
				continue
			}
			c := byName[t.finalizer]
			if c == nil {
				c = &FinalizerCount{Name: t.finalizer, Oldest: o.since}
				byName[t.finalizer] = c
			}
			c.Objects++
			c.Oldest = min(c.Oldest, o.since)
		}
	}
	list := make([]FinalizerCount, 0, len(byName))
	for _, c := range byName {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b FinalizerCount) int {
		return cmp.Or(cmp.Compare(a.Oldest, b.Oldest), cmp.Compare(a.Name, b.Name))
	})
	return list, closeSnapshot(snap)
}

// Status counts pending work for a client, at a snapshot that is taken after
// the call. If ctx ends first, the error wraps that of ctx.
func (p *Propagator) Status(ctx context.Context) (*coppicev1.StatusReply, error) {
	counted, err := p.count(ctx, p.c.MaxCounted, func(uid.UID, state.WorkRow) {})
	if err != nil {
		return nil, err
	}
	reply := &coppicev1.StatusReply{Revision: counted.GetRevision(), Idle: Idle(counted.GetPending())}
	for _, c := range counted.GetPending() {
		reply.Pending = append(reply.Pending, &coppicev1.PendingWork{Type: c.GetType(), Rows: c.GetRows(), Oldest: c.GetOldest()})
	}
	return reply, nil
}

// Idle reports whether nothing is left to do: whether all pending work is
// dependents that only unknown owners, tripped brakes or their protection keep.
func Idle(counts []*coppicev1.PendingCount) bool {
	for _, c := range counts {
		if c.GetRows() > 0 && c.GetType() != TypeUnknown && c.GetType() != TypeBraked && c.GetType() != TypeProtected {
			return false
		}
	}
	return true
}

// count counts all work rows, and calls visit with each. It reads at most budget dependents.
func (p *Propagator) count(ctx context.Context, budget int, visit func(uid.UID, state.WorkRow)) (*coppicev1.RepublishReply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stats := map[string]*coppicev1.PendingCount{}
	snap := p.c.State.Snapshot().Until(ctx)
	x := classifier{snap: snap, now: max(p.now(), snap.Time()), budget: budget}
	snap.EachWorkRow("", func(u uid.UID, row state.WorkRow) bool {
		for _, t := range TypesOf(row) {
			// An owner with more dependents than are examined waits until their other
			// owners are known.
			if t == TypeEvaluate || t == TypeExamine && row.Examine > lifecycle.MaxExamined {
				if actionable, braked := x.actionable(u); braked {
					t = TypeBraked
				} else if !actionable {
					t = TypeUnknown
				}
			}
			c := stats[t]
			if c == nil {
				c = &coppicev1.PendingCount{Type: t, Oldest: int64(row.Since)}
				stats[t] = c
			}
			c.Rows++
			c.Oldest = min(c.Oldest, int64(row.Since))
		}
		visit(u, row)
		return ctx.Err() == nil
	})
	reply := &coppicev1.RepublishReply{Revision: snap.Revision()}
	for _, t := range Types {
		if c := stats[t]; c != nil {
			reply.Pending = append(reply.Pending, c)
		}
	}
	if err := closeSnapshot(snap); err != nil {
		return nil, cmp.Or(ctx.Err(), err) // a read that ctx has ended is no failure of the state
	}
	return reply, ctx.Err()
}

// classifier distinguishes rows that processors can act on from rows whose dependents
// only unknown owners keep.
type classifier struct {
	snap   *state.Snapshot
	now    lifecycle.Time
	budget int // dependents that may still be examined; a wide one counts as often as it has owners
	// decided are the decisions on the dependents that were examined: one may have thousands of owners.
	decided map[uid.UID]lifecycle.Decision
}

// actionable reports whether processors can act on a dependent of u now, or
// once the import session that brought u ends. If they cannot, it reports whether a brake
// pauses the deletion of a dependent.
func (x *classifier) actionable(u uid.UID) (found, braked bool) {
	w := workOf(x.snap, u, state.WorkRow{}, x.now)
	switch {
	case !w.Evaluate:
		return false, false
	case w.due.Begins > x.now:
		return true, false
	case w.due.First > x.now:
		return false, false
	}
	w.Orphan = false // it is counted on its own
	x.snap.Dependents(u, w.filter(x.snap), state.Edge{}, func(_ state.Edge, d uid.UID) bool {
		decision, examined := x.decided[d]
		if !examined {
			dependent := x.snap.Node(d)
			if dependent == nil || dependent.Terminating() {
				return true
			}
			cost := 1
			if len(dependent.Owners) > lifecycle.Wide {
				cost = len(dependent.Owners)
			}
			if x.budget -= cost; x.budget < 0 {
				found = true
				return false
			}
			decision = lifecycle.Evaluate(x.snap, dependent, x.now).Decision
			if len(dependent.Owners) > lifecycle.Wide {
				if x.decided == nil {
					x.decided = map[uid.UID]lifecycle.Decision{}
				}
				x.decided[d] = decision
			}
		}
		switch decision {
		case lifecycle.CollectObject, lifecycle.CollectForeground, lifecycle.StripReferences:
			found = true
		case lifecycle.Pause:
			braked = true
		}
		return !found
	})
	return found, braked && !found
}

// TypesOf returns the types of pending work of a row, without reading its dependents.
func TypesOf(row state.WorkRow) []string {
	var list []string
	switch {
	case row.Evaluate && row.EvaluateAt == lifecycle.Never:
		list = append(list, TypeUnknown)
	case row.Evaluate:
		list = append(list, TypeEvaluate)
	}
	if row.Orphan {
		list = append(list, TypeOrphan)
	}
	if row.Finish != "" {
		list = append(list, TypeFinish)
	}
	if row.Examine > 0 {
		list = append(list, TypeExamine)
	}
	if row.Finalize {
		list = append(list, TypeFinalize)
	}
	if row.Terminate {
		list = append(list, TypeTerminate)
	}
	if row.Blocked {
		list = append(list, TypeBlocked)
	}
	if row.Drain {
		list = append(list, TypeDrain)
	}
	if row.Protected {
		list = append(list, TypeProtected)
	}
	return list
}
