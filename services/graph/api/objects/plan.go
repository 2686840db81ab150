package objects

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// maxPlan is the maximum number of objects of a plan.
const maxPlan = 200000

// defaultPlanTime is the default of WriterConfig.PlanTime; that of WriterConfig.PlanLimit is bus.MaxPlanned.
const defaultPlanTime = 250 * time.Millisecond

// Plan replies with what a deletion would do.
func (s *Replica) Plan(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.PlanRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if r.GetAskGrant() {
		if err := checkAsk(&coppicev1.PlanRequest{AskGrant: true, Protocol: r.GetProtocol()}, &r); err != nil {
			return err
		}
		q.Answer(&coppicev1.PlanReply{Grant: s.c.Grants.give(at, "", s.Now())}, nil)
		return nil
	}
	d, err := planDeletion(at, &r)
	if err != nil {
		return err
	}
	d.Sees = seesOf(q)
	if err := s.c.Grants.covers(at, r.GetDelete(), "", s.Now()); err != nil {
		return err
	}
	s.AtLeast(s.Plans, q, r.GetMinRevision(), func(ctx context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		reply, err := planOf(ctx, snap, q, d, &r, s.Time(snap))
		return reply, err
	})
	return nil
}

// planDeletion returns what a request plans.
func planDeletion(at bus.API, r *coppicev1.PlanRequest) (plan.Deletion, *lifecycle.Error) {
	d, err := deletionOf(at, r.GetDelete())
	if err == nil && r.GetUnprotect() && len(d.Also) > 0 {
		err = lifecycle.ErrBadRequest("unprotect and also exclude each other: the removal of protections is planned for one resource in one namespace; plan each of them with a request of its own")
	}
	d.Unprotect = r.GetUnprotect()
	return d, err
}

// planOf returns the reply to a plan, evaluated at a time.
func planOf(ctx context.Context, snap *state.Snapshot, q *serve.Request, d plan.Deletion, r *coppicev1.PlanRequest, now lifecycle.Time) (*coppicev1.PlanReply, *lifecycle.Error) {
	p, err := plan.Compute(ctx, snap, d, now, maxPlan)
	if err != nil {
		return nil, err
	}
	maxBytes := q.MaxPayload / 2
	if q.JSON {
		maxBytes /= 3
	}
	return p.Reply(int(r.GetOffset()), int(r.GetLimit()), maxBytes), nil
}

// deletionOf returns the deletion of a request with its parts. It checks their form and their number.
func deletionOf(at bus.API, r *coppicev1.DeleteRequest) (plan.Deletion, *lifecycle.Error) {
	d := plan.Deletion{Resource: serve.Resource(at), Namespace: at.Namespace, DeleteRequest: r}
	names := len(r.GetNames())
	if err := checkNames("names", r.GetNames()); err != nil || len(r.GetAlso()) == 0 {
		return d, err
	}
	if n := len(r.GetAlso()); n > bus.MaxDeleteParts {
		return d, &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: fmt.Sprintf(
			"also: the deletion has %d parts, and at most %d are allowed: delete fewer kinds and namespaces at once", n, bus.MaxDeleteParts)}
	}
	for i, part := range r.GetAlso() {
		if len(part.GetNames()) == 0 {
			return d, lifecycle.ErrBadRequest("also[%d]: the part of %s names no objects; leave it out", i, part.GetResource())
		}
		if group, plural := lifecycle.SplitResource(part.GetResource()); lifecycle.CheckResource(group, plural) != nil {
			return d, lifecycle.ErrBadRequest("also[%d].resource: %q names no type; write the plural of a kind with its group, such as deployments.apps", i, part.GetResource())
		}
		if err := checkNames(fmt.Sprintf("also[%d].names", i), part.GetNames()); err != nil {
			return d, err
		}
		if len(part.GetOptions().GetDryRun()) > 0 {
			return d, lifecycle.ErrBadRequest("also[%d].options.dryRun: the part of %s has the option of the whole request; set options.dryRun there, and leave it out here", i, part.GetResource())
		}
		names += len(part.GetNames())
		d.Also = append(d.Also, plan.Deletion{Resource: part.GetResource(), Namespace: part.GetNamespace(), DeleteRequest: &coppicev1.DeleteRequest{
			Names: part.GetNames(), Options: part.GetOptions(), Version: part.GetVersion(),
		}})
	}
	if err := checkCount(names, "names"); err != nil {
		return d, err
	}
	type object struct{ resource, namespace, name string }
	named := make(map[object]bool, names)
	for _, part := range d.All() {
		for _, name := range part.GetNames() {
			o := object{part.Resource, part.Namespace, name}
			if named[o] {
				return d, lifecycle.ErrBadRequest("also: the deletion names %s/%s in namespace %q twice; name it once", o.resource, o.name, o.namespace)
			}
			named[o] = true
		}
	}
	return d, nil
}

// checkPlan returns an error unless the deletion has the options of the plan that the request names, and
// a function that checks the grants of the deletion, computes its plan again in the commit that acts,
// and refuses the deletion unless that is the plan that the request names.
func (s *Writer) checkPlan(at bus.API, r *coppicev1.DeleteRequest, d plan.Deletion) (func(*writer.OpenCommit) *lifecycle.Error, *lifecycle.Error) {
	was, err := d.Named(r.GetPlan())
	if err != nil {
		return nil, err
	}
	limit, most := cmp.Or(s.c.PlanLimit, bus.MaxPlanned), cmp.Or(s.c.PlanTime, defaultPlanTime)
	return func(on *writer.OpenCommit) *lifecycle.Error {
		if err := s.c.Grants.covers(at, r, r.GetPlan(), on.Ctx.Now.Time()); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), most)
		defer cancel()
		snap := on.Tx.Stored()
		defer snap.Close()
		now, err := plan.Compute(ctx, snap, d, on.Ctx.Now, limit)
		switch {
		case err != nil && (err.Reason == api.ErrRequestEntityTooLarge || err.Reason == api.ErrTimeout):
			return &lifecycle.Error{
				Reason: api.ErrRequestEntityTooLarge, Resource: d.Resource, Namespace: d.Namespace,
				Message: fmt.Sprintf("a deletion by plan has at most %d objects, and its plan must be computed within %v; this one exceeds that, and nothing was deleted: delete without a plan, or delete dependents first", limit, most),
			}
		case err != nil:
			return err
		case now.Hash() != was.Hash:
			return now.Changed(d, was)
		}
		return nil
	}, nil
}
