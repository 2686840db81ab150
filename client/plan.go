package client

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Plan is what a deletion would do.
type Plan = coppicev1.PlanReply

// planAttempts is how often a plan is begun anew that changes while its pages
// are read.
const planAttempts = 5

// planTimeout is how long an answer may take at the least: a large plan is work.
const planTimeout = 30 * time.Second

// Plan finds out what the deletion of objects would do, all of them in one
// commit, and changes nothing. The plan has all of its objects; one that changes
// again and again while it is read is a Conflict. minRevision is how old the
// state may be that it is computed at; zero for any.
func (o *Objects) Plan(ctx context.Context, names []string, opts *DeleteOptions, minRevision uint64) (*Plan, error) {
	slow := *o.c
	slow.timeout = max(slow.timeout, planTimeout)
	if slow.patience > 0 {
		slow.patience = max(slow.patience, planTimeout)
	}
	patient := &Objects{c: &slow, resource: o.resource, namespace: o.namespace}
	for range planAttempts {
		p, same, err := patient.planPages(ctx, &coppicev1.PlanRequest{
			Delete: &coppicev1.DeleteRequest{Names: names, Options: opts}, MinRevision: minRevision,
		})
		if err != nil || same {
			return p, err
		}
		minRevision = max(minRevision, p.GetRevision())
	}
	return nil, &Error{Reason: Conflict, Message: "the plan changes faster than it can be read; try again"}
}

// planPages reads a plan page by page. Pages are of the same plan as long as
// their hash is the same.
func (o *Objects) planPages(ctx context.Context, r *coppicev1.PlanRequest) (p *Plan, same bool, err error) {
	p = &Plan{}
	for p.Hash == "" || p.Truncated {
		var page Plan
		if err := o.c.call(ctx, o.api(bus.VerbPlan), false, r, &page); err != nil {
			return nil, false, err
		}
		if p.Hash != "" && p.Hash != page.Hash {
			return p, false, nil
		}
		page.Objects = append(p.Objects, page.Objects...)
		p = &page
		r.Offset, r.MinRevision = uint32(len(p.Objects)), p.Revision
	}
	return p, true, nil
}
