package client

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// deletionResults returns the results of a deletion of many objects.
func deletionResults(reply *coppicev1.ObjectsReply, into *Reply) []DeleteResult {
	list := make([]DeleteResult, 0, len(reply.GetResults()))
	for i, r := range results(reply) {
		d := DeleteResult{Object: r.Object, Err: r.Err, Warnings: r.Warnings, Revision: r.Revision}
		switch reply.GetResults()[i].GetCode() {
		case 200:
			d.State = Removed
		case 202:
			d.State = Pending
		}
		if into != nil {
			into.Revision, into.Warnings = max(into.Revision, r.Revision), append(into.Warnings, r.Warnings...)
		}
		list = append(list, d)
	}
	if into != nil {
		into.Revision = max(into.Revision, reply.GetRevision())
	}
	return list
}

// message returns the options as the request has them.
func (o *DeleteOptions) message() *coppicev1.DeleteOptions {
	m := &coppicev1.DeleteOptions{PropagationPolicy: string(o.Propagation), Preconditions: preconditions(o.UID, o.ResourceVersion)}
	if o.GracePeriod != nil {
		seconds := int64((*o.GracePeriod + time.Second - 1) / time.Second)
		if *o.GracePeriod < 0 {
			seconds = -1 // counts as 1 s (A4.5)
		}
		m.GracePeriodSeconds = &seconds
	}
	if o.DryRun {
		m.DryRun = []string{"All"}
	}
	return m
}

func (r *resourceClient) delete(ctx context.Context, names []string, opts []DeleteOption) ([]DeleteResult, error) {
	o := collect(opts, DeleteOption.ApplyToDelete)
	var reply coppicev1.ObjectsReply
	if err := r.c.command(ctx, r.api(bus.VerbDelete), &coppicev1.DeleteRequest{Names: names, Options: o.message(), Plan: o.Plan}, &reply); err != nil {
		return nil, err
	}
	if o.Reply != nil {
		*o.Reply = Reply{}
	}
	return deletionResults(&reply, o.Reply), nil
}

func (r *resourceClient) Delete(ctx context.Context, name string, opts ...DeleteOption) (*DeleteResult, error) {
	list, err := r.delete(ctx, []string{name}, opts)
	switch {
	case err != nil:
		return nil, err
	case len(list) != 1:
		return nil, errResults(len(list), 1)
	case list[0].Err != nil:
		return nil, list[0].Err
	}
	return &list[0], nil
}

func (r *resourceClient) DeleteBatch(ctx context.Context, names []string, opts ...DeleteOption) ([]DeleteResult, error) {
	return r.delete(ctx, names, opts)
}

func (r *resourceClient) DeleteCollection(ctx context.Context, selector string, opts ...DeleteOption) ([]DeleteResult, error) {
	return r.deleteCollection(ctx, &coppicev1.DeleteCollectionRequest{LabelSelector: selector}, opts)
}

func (r *resourceClient) DeleteEverything(ctx context.Context, opts ...DeleteOption) ([]DeleteResult, error) {
	return r.deleteCollection(ctx, &coppicev1.DeleteCollectionRequest{All: true}, opts)
}

func (r *resourceClient) deleteCollection(ctx context.Context, request *coppicev1.DeleteCollectionRequest, opts []DeleteOption) ([]DeleteResult, error) {
	o := collect(opts, DeleteOption.ApplyToDelete)
	if o.Plan != "" {
		return nil, &Error{Reason: ErrBadRequest, Message: "delete a collection: ByPlan is not allowed; name the objects of the plan in DeleteBatch"}
	}
	request.Options = o.message()
	if o.Reply != nil {
		*o.Reply = Reply{}
	}
	var all []DeleteResult
	for {
		var reply coppicev1.DeleteCollectionReply
		if err := r.c.call(ctx, r.api(bus.VerbDeleteCollection), request, &reply); err != nil {
			return all, err
		}
		all = append(all, deletionResults(&coppicev1.ObjectsReply{Results: reply.GetResults(), Revision: reply.GetRevision()}, o.Reply)...)
		if request.Continue = reply.GetContinue(); request.Continue == "" {
			return all, nil
		}
	}
}

const (
	// planAttempts is how often Plan starts again if the plan changes while its pages are read.
	planAttempts = 5
	// planTimeout is the minimum time that Plan and ReleaseBrake wait for a reply. Large plans
	// take seconds, and each further attempt computes the plan from the beginning.
	planTimeout = 30 * time.Second
)

// patient returns a client that waits for the reply to a request that needs a plan.
func (c *Client) patient() *Client {
	slow := *c
	slow.timeout = max(slow.timeout, planTimeout)
	if slow.retryTimeout > 0 {
		slow.retryTimeout = max(slow.retryTimeout, planTimeout)
	}
	return &slow
}

// Plan returns all objects of the plan. It fails with ErrConflict if the plan
// changes repeatedly while it is read.
func (r *resourceClient) Plan(ctx context.Context, names []string, opts ...PlanOption) (*Plan, error) {
	p := collect(opts, PlanOption.ApplyToPlan)
	deletion := DeleteOptions{Propagation: p.Propagation, GracePeriod: p.GracePeriod, UID: p.UID, ResourceVersion: p.ResourceVersion}
	return r.plan(ctx, &coppicev1.PlanRequest{
		Delete: &coppicev1.DeleteRequest{Names: names, Options: deletion.message()}, MinRevision: p.MinRevision, Unprotect: p.Unprotect,
	}, p.Reply)
}

// plan reads all pages of a plan.
func (r *resourceClient) plan(ctx context.Context, q *coppicev1.PlanRequest, into *Reply) (*Plan, error) {
	patient := &resourceClient{c: r.c.patient(), resource: r.resource, namespace: r.namespace}
	for range planAttempts {
		q.Offset = 0
		plan, complete, err := patient.planPages(ctx, q)
		if err != nil {
			return nil, err
		}
		if complete {
			if into != nil {
				*into = Reply{Revision: plan.GetRevision()}
			}
			return plan, nil
		}
		q.MinRevision = max(q.MinRevision, plan.GetRevision())
	}
	return nil, &Error{Reason: ErrConflict, Message: "plan: the plan changed each time while its pages were read; try again"}
}

// planPages reads a plan page by page. Pages with the same hash are of the same
// plan; complete is false if the hash changed.
func (r *resourceClient) planPages(ctx context.Context, q *coppicev1.PlanRequest) (p *Plan, complete bool, err error) {
	p = &Plan{}
	for p.Hash == "" || p.Truncated {
		var page Plan
		if err := r.c.read(ctx, r.api(bus.VerbPlan), q, &page); err != nil {
			return nil, false, err
		}
		if p.Hash != "" && p.Hash != page.Hash {
			return p, false, nil
		}
		page.Objects = append(p.Objects, page.Objects...)
		p = &page
		q.Offset, q.MinRevision = uint32(len(p.Objects)), p.Revision
	}
	return p, true, nil
}
