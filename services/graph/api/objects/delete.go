package objects

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/planname"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
)

// Delete handles the verb delete.
func (s *Writer) Delete(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.DeleteRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if r.GetAskGrant() {
		if err := checkAsk(&coppicev1.DeleteRequest{AskGrant: true, Plan: r.GetPlan(), Protocol: r.GetProtocol()}, &r); err != nil {
			return err
		}
		if _, err := planname.Parse(r.GetPlan()); err != nil {
			return err
		}
		q.Answer(&coppicev1.ObjectsReply{Grant: s.c.Grants.give(at, r.GetPlan(), s.Now())}, nil)
		return nil
	}
	d, err := deletionOf(at, &r)
	if err != nil {
		return err
	}
	d.Sees = seesOf(q)
	work := &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: len(r.GetNames()),
		DryRun: slices.Contains(r.GetOptions().GetDryRun(), "All"),
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = r.GetNames()[i]
			return lifecycle.Delete(ctx, at, r.GetVersion(), r.GetOptions())
		},
		Name: func(i int) string { return r.GetNames()[i] },
	}
	if len(d.Also) > 0 {
		if r.GetPlan() == "" {
			return lifecycle.ErrBadRequest("also: objects of several resources or namespaces are deleted by a plan: plan the deletion, and name the plan")
		}
		work.Count, work.Decide = decidesParts(d)
		work.Name = nil // the names are of several resources
	}
	if r.GetPlan() != "" {
		if work.Check, err = s.checkPlan(at, &r, d); err != nil {
			return err
		}
		work.Atomic = true // a plan covers the whole request
	}
	return s.submit(q, at, work, "")
}
