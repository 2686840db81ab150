package resolve

import (
	"context"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Delay is what delays an owner that is being deleted in the foreground.
type Delay struct {
	// Delayed: a dependent delays the owner. The examination ends at the first such
	// dependent.
	Delayed bool
	// Protected: that dependent is protected.
	Protected bool
	// TooMany: no dependent was found that delays the owner, and more than
	// lifecycle.MaxExamined are kept by unknown owners alone. The examination
	// ends there.
	TooMany bool
	// Kept are the dependents that unknown owners alone keep, all of them unless
	// Delayed or TooMany.
	Kept []uid.UID
}

// delayPage is the number of dependents that DelayOf reads at once.
const delayPage = 1024

// DelayOf examines the dependents of an owner that is being deleted in the foreground, in the order of
// the index. It is needed if the counters alone do not show whether one of them delays the owner: no
// dependent blocks, and some are not terminating (docs/semantics.md, A13).
//
// It reads a snapshot, outside of any commit, and may read many dependents. Its result is a proposal:
// the writer verifies it in the commit that removes the finalizer (lifecycle.Finish). If ctx ends first,
// DelayOf returns the error of ctx. It does not return failures of reads: the caller must check snap.Err.
func DelayOf(ctx context.Context, snap *state.Snapshot, owner *lifecycle.Node, now lifecycle.Time) (f Delay, err error) {
	filter := snap.ValidClaims(owner, true)
	var cursor state.Edge
	for {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		var found []uid.UID
		snap.Dependents(owner.UID, filter, cursor, func(e state.Edge, d uid.UID) bool {
			cursor, found = e, append(found, d)
			return len(found) < delayPage
		})
		snap.Prefetch(found)
		snap.PrefetchOwners(found)
		for _, u := range found {
			d := snap.Node(u)
			if d == nil {
				continue // the read failed
			}
			switch lifecycle.DelayOf(snap, d, owner, now) {
			case lifecycle.Delays:
				f.Delayed, f.Protected = true, d.Protected()
				return f, nil
			case lifecycle.KeptByUnknown:
				f.Kept = append(f.Kept, u)
			case lifecycle.NoDelay:
			}
		}
		if len(f.Kept) > lifecycle.MaxExamined {
			f.TooMany = true
			return f, nil
		}
		if len(found) < delayPage || snap.Err() != nil {
			return f, nil //nolint:nilerr // callers ask the snapshot for its error
		}
		snap.Forget()
	}
}
