package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Limits of plans. The writer, which everybody waits for, computes small ones.
const (
	maxPlan       = 200000
	maxWriterPlan = 20000
	writerPlanFor = 250 * time.Millisecond
)

// plan answers what a deletion would do.
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
	s.atLeastWithin(q, r.GetMinRevision(), func(ctx context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
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

// planned checks a deletion against the plan that it names, at the state of the
// commit that acts.
func planned(at bus.API, r *coppicev1.DeleteRequest) (func(*writer.Decision) *lifecycle.Error, *lifecycle.Error) {
	was, err := plan.ParseName(r.GetPlan())
	if err != nil {
		return nil, err
	}
	d := deletionOf(at, r)
	return func(on *writer.Decision) *lifecycle.Error {
		ctx, cancel := context.WithTimeout(context.Background(), writerPlanFor)
		defer cancel()
		snap := on.Tx.Stored()
		defer snap.Close()
		now, err := plan.Compute(ctx, snap, d, on.Ctx.Now, maxWriterPlan)
		switch {
		case err != nil && (err.Reason == lifecycle.ReasonTooLarge || err.Reason == lifecycle.ReasonTimeout):
			return &lifecycle.Error{
				Reason: lifecycle.ReasonTooLarge, Resource: d.Resource, Namespace: d.Namespace,
				Message: "a deletion is held against its plan up to 20,000 objects and 250 ms; this one takes more, and nothing was done: delete without a plan, or something further down",
			}
		case err != nil:
			return err
		case now.Hash() != was.Hash:
			return now.Changed(d, was)
		}
		return nil
	}, nil
}
