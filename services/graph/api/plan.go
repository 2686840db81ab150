package api

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// maxPlan is the maximum number of objects of a plan.
const maxPlan = 200000

// The defaults of Config.PlanLimit and Config.PlanTime.
const (
	defaultPlanLimit = 20000
	defaultPlanTime  = 250 * time.Millisecond
)

// plan replies with what a deletion would do.
func (s *replicaServer) plan(q *request) {
	at, err := s.target(q)
	var r coppicev1.PlanRequest
	if err == nil {
		err = q.read(&r)
	}
	if err == nil {
		err = checkCount(len(r.GetDelete().GetNames()), "names")
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	s.readAtLeast(s.plans, q, r.GetMinRevision(), func(ctx context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		p, err := plan.Compute(ctx, snap, deletionOf(at, r.GetDelete()), s.now(snap), maxPlan)
		if err != nil {
			return nil, err
		}
		maxBytes := q.maxPayload / 2
		if q.json {
			maxBytes /= 3
		}
		return p.Reply(int(r.GetOffset()), int(r.GetLimit()), maxBytes), nil
	})
}

func deletionOf(at bus.API, r *coppicev1.DeleteRequest) plan.Deletion {
	return plan.Deletion{Resource: resource(at), Namespace: at.Namespace, DeleteRequest: r}
}

// planned returns a function that computes the plan of a deletion again in the commit that
// acts, and refuses the deletion unless that is the plan that the request names.
func (c *Config) planned(at bus.API, r *coppicev1.DeleteRequest) (func(*writer.Decision) *lifecycle.Error, *lifecycle.Error) {
	was, err := plan.ParseName(r.GetPlan())
	if err != nil {
		return nil, err
	}
	d := deletionOf(at, r)
	limit, most := cmp.Or(c.PlanLimit, defaultPlanLimit), cmp.Or(c.PlanTime, defaultPlanTime)
	return func(on *writer.Decision) *lifecycle.Error {
		ctx, cancel := context.WithTimeout(context.Background(), most)
		defer cancel()
		snap := on.Tx.Stored()
		defer snap.Close()
		now, err := plan.Compute(ctx, snap, d, on.Ctx.Now, limit)
		switch {
		case err != nil && (err.Reason == lifecycle.ReasonRequestEntityTooLarge || err.Reason == lifecycle.ReasonTimeout):
			return &lifecycle.Error{
				Reason: lifecycle.ReasonRequestEntityTooLarge, Resource: d.Resource, Namespace: d.Namespace,
				Message: fmt.Sprintf("a deletion is held against its plan up to %d objects and %v; this one takes more, and nothing was done: delete without a plan, or something further down", limit, most),
			}
		case err != nil:
			return err
		case now.Hash() != was.Hash:
			return now.Changed(d, was)
		}
		return nil
	}, nil
}
