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

// The kinds of pending work, as metrics and StatusReply name them.
const (
	SortEvaluate  = "evaluate"  // dependents that processors can act on
	SortUnknown   = "unknown"   // dependents that only unknown owners keep
	SortBraked    = "braked"    // dependents whose deletion a tripped brake pauses
	SortOrphan    = "orphan"    // dependents to be orphaned
	SortFinish    = "finish"    // built-in finalizers that may be done
	SortExamine   = "examine"   // owners that wait, and whose dependents are to be examined
	SortFinalize  = "finalize"  // external finalizers to be called
	SortTerminate = "terminate" // agents to be called
	SortBlocked   = "blocked"   // objects that are blocked by dependents or users which are being deleted
	SortDrain     = "drain"     // namespaces and kinds whose contents are being deleted
	SortProtected = "protected" // dependents that stay because they are protected
)

// AllSorts are the kinds of pending work, in the order of replies.
var AllSorts = []string{SortEvaluate, SortUnknown, SortBraked, SortOrphan, SortFinish, SortExamine, SortFinalize, SortTerminate, SortBlocked, SortDrain, SortProtected}

var queueOf = map[string]string{SortEvaluate: bus.QueueDirty, SortOrphan: bus.QueueOrphan, SortFinish: bus.QueueFinish, SortDrain: bus.QueueDrain}

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
		if c.GetRows() > 0 && c.GetType() != SortUnknown && c.GetType() != SortBraked && c.GetType() != SortProtected {
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
		for _, sort := range Sorts(row) {
			// An owner with more dependents than are examined waits until their other
			// owners are known.
			if sort == SortEvaluate || sort == SortExamine && row.Examine > lifecycle.MaxExamined {
				if actionable, braked := x.actionable(u); braked {
					sort = SortBraked
				} else if !actionable {
					sort = SortUnknown
				}
			}
			c := stats[sort]
			if c == nil {
				c = &coppicev1.PendingCount{Type: sort, Oldest: int64(row.Since)}
				stats[sort] = c
			}
			c.Rows++
			c.Oldest = min(c.Oldest, int64(row.Since))
		}
		visit(u, row)
		return ctx.Err() == nil
	})
	reply := &coppicev1.RepublishReply{Revision: snap.Revision()}
	for _, sort := range AllSorts {
		if c := stats[sort]; c != nil {
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
	w := evaluate(x.snap, u, state.WorkRow{}, x.now)
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

// Sorts returns the kinds of pending work of a row, without reading its dependents.
func Sorts(row state.WorkRow) []string {
	var sorts []string
	switch {
	case row.Evaluate && row.EvaluateAt == lifecycle.Never:
		sorts = append(sorts, SortUnknown)
	case row.Evaluate:
		sorts = append(sorts, SortEvaluate)
	}
	if row.Orphan {
		sorts = append(sorts, SortOrphan)
	}
	if row.Finish != "" {
		sorts = append(sorts, SortFinish)
	}
	if row.Examine > 0 {
		sorts = append(sorts, SortExamine)
	}
	if row.Finalize {
		sorts = append(sorts, SortFinalize)
	}
	if row.Terminate {
		sorts = append(sorts, SortTerminate)
	}
	if row.Blocked {
		sorts = append(sorts, SortBlocked)
	}
	if row.Drain {
		sorts = append(sorts, SortDrain)
	}
	if row.Protected {
		sorts = append(sorts, SortProtected)
	}
	return sorts
}
