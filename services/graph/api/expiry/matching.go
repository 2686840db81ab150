package expiry

import (
	"context"
	"fmt"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Matching returns a function that finds, at a snapshot and a time, the objects of a kind that expiry policies
// would delete if the brake did not pause their deletion (B4.4). Policies that delete nothing are left out:
// those that report only, and those that cannot be evaluated.
func (s *Policies) Matching(ctx context.Context, snap *state.Snapshot, kind *lifecycle.Kind, at lifecycle.Time) plan.Matching {
	return func(paused, visit func(*lifecycle.Node) bool) *lifecycle.Error {
		policies := snap.Kinds().Resource(Resource)
		if policies == nil {
			return nil
		}
		var list []*lifecycle.Node
		snap.Nodes(policies, "", state.NameCursor{}, func(n *lifecycle.Node) bool {
			if !n.Terminating() && !n.Uninitialized() {
				list = append(list, n)
			}
			return true
		})
		for _, n := range list {
			p, err := s.duePolicy(ctx, snap, n, at)
			if err != nil && err.Reason != api.ErrBadRequest {
				return err
			}
			if p == nil || p.ReportOnly || p.kind != kind {
				continue
			}
			if more, err := eachMatching(ctx, snap, p, at, paused, visit); err != nil || !more {
				return err
			}
		}
		return nil
	}
}

// eachMatching calls visit for the paused objects to which a policy applies, until visit returns false. It
// returns false then.
func eachMatching(
	ctx context.Context, snap *state.Snapshot, p *duePolicy, at lifecycle.Time, paused, visit func(*lifecycle.Node) bool,
) (more bool, err *lifecycle.Error) {
	more = true
	rule := p.Rule(p.node)
	read := 0
	snap.Nodes(p.kind, "", state.NameCursor{}, func(n *lifecycle.Node) bool {
		if read++; read%64 == 0 && ctx.Err() != nil {
			// Not a timeout: another attempt would begin again.
			err = &lifecycle.Error{Reason: api.ErrConflict, Message: fmt.Sprintf(
				"%s %q was not evaluated on all %s in time; set reportOnly: true in it until the brake is released",
				Resource, p.node.Name, p.kind.Resource())}
			return false
		}
		if paused(n) {
			// An object on which the condition has no result stays.
			is, fail := p.matches(snap, n, at)
			if fail == nil && rule.Next(snap.Notices(n.UID), is, at) == lifecycle.NoticeDelete {
				more = visit(n)
			}
		}
		return more
	})
	return more, err
}
