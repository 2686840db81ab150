package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// grantAttempts is the maximum number of attempts of a request; each has new grants, because
// grants expire.
const grantAttempts = 3

// PlanDeletions computes what several deletions would do, all in one commit, and changes nothing.
func (c *Client) PlanDeletions(ctx context.Context, deletions []Deletion, opts ...PlanDeletionsOption) (*Plan, error) {
	o := collect(opts, PlanDeletionsOption.ApplyToPlanDeletions)
	r, q, err := c.parts(deletions)
	if err != nil {
		return nil, err
	}
	var plan *Plan
	err = c.granted(ctx, q, bus.VerbPlan, func() error {
		plan, err = r.plan(ctx, &coppicev1.PlanRequest{Delete: q, MinRevision: o.MinRevision}, o.Reply)
		return err
	})
	if err == nil && !plansAll(plan, deletions) {
		return nil, &Error{Reason: ErrMethodNotAllowed, Message: "plan: the graph service has planned only some of the deletions: it is an older version, which does not know deletions of objects of several kinds or namespaces; " +
			"replace all graph services of the realm first"}
	}
	return plan, err
}

// plansAll reports whether a plan has the objects that deletions name. A service of an older version
// plans the first deletion alone.
func plansAll(plan *Plan, deletions []Deletion) bool {
	want, got := 0, 0
	for _, d := range deletions {
		want += len(d.Names)
	}
	for _, o := range plan.GetObjects() {
		if o.GetRequested() {
			got++
		}
	}
	return got == want || len(deletions) == 1
}

// DeletePlanned carries out the plan of several deletions, all in one commit.
func (c *Client) DeletePlanned(ctx context.Context, plan string, deletions []Deletion, opts ...DeletePlannedOption) ([]DeleteResult, error) {
	o := collect(opts, DeletePlannedOption.ApplyToDeletePlanned)
	r, q, err := c.parts(deletions)
	if err != nil {
		return nil, err
	}
	if plan == "" {
		return nil, &Error{Reason: ErrBadRequest, Message: "delete by a plan: no plan is named; PlanDeletions returns one"}
	}
	if q.Plan = plan; o.DryRun {
		q.Options.DryRun = []string{"All"}
	}
	var reply coppicev1.ObjectsReply
	if err := c.granted(ctx, q, bus.VerbDelete, func() error { return c.command(ctx, r.api(bus.VerbDelete), q, &reply) }); err != nil {
		return nil, err
	}
	if o.Reply != nil {
		*o.Reply = Reply{}
	}
	return deletionResults(&reply, o.Reply), nil
}

// parts returns the request for deletions, and the client of the resource to which it is sent: that
// of the first.
func (c *Client) parts(deletions []Deletion) (*resourceClient, *coppicev1.DeleteRequest, error) {
	if len(deletions) == 0 {
		return nil, nil, &Error{Reason: ErrBadRequest, Message: "the request names no deletions"}
	}
	if n := len(deletions) - 1; n > bus.MaxDeleteParts {
		return nil, nil, &Error{Reason: ErrRequestEntityTooLarge, Message: fmt.Sprintf(
			"the request has %d deletions, and at most %d are allowed: delete objects of fewer kinds and namespaces at once", n+1, bus.MaxDeleteParts+1)}
	}
	first := deletions[0]
	q := &coppicev1.DeleteRequest{Names: first.Names, Options: first.message()}
	for _, d := range deletions[1:] {
		q.Also = append(q.Also, &coppicev1.DeletePart{Resource: d.Resource.String(), Namespace: d.Namespace, Names: d.Names, Options: d.message()})
	}
	return &resourceClient{c: c, resource: first.Resource, namespace: first.Namespace}, q, nil
}

func (d *Deletion) message() *coppicev1.DeleteOptions {
	o := DeleteOptions{Propagation: d.Propagation, GracePeriod: d.GracePeriod}
	return o.message()
}

// granted calls do with grants in the parts of a request. A call that is refused because a grant is
// not valid has changed nothing, and is repeated with new grants.
func (c *Client) granted(ctx context.Context, q *coppicev1.DeleteRequest, verb string, do func() error) (err error) {
	for range grantAttempts {
		if err := c.grants(ctx, q, verb); err != nil {
			return err
		}
		var refused *Error
		err = do()
		if !errors.As(err, &refused) || !HasCause(err, CauseGrantInvalid) {
			return err
		}
	}
	return err
}

// grants asks for a grant for each part of a request. Parts of the same resource and namespace share
// one.
func (c *Client) grants(ctx context.Context, q *coppicev1.DeleteRequest, verb string) error {
	type place struct{ resource, namespace string }
	given := map[place][]byte{}
	for _, part := range q.GetAlso() {
		at := place{part.GetResource(), part.GetNamespace()}
		if given[at] == nil {
			grant, err := (&resourceClient{c: c, resource: ParseResource(at.resource), namespace: at.namespace}).grant(ctx, verb, q.GetPlan())
			if err != nil {
				return err
			}
			given[at] = grant
		}
		part.Grant = given[at]
	}
	return nil
}

// grant asks for the proof that the actor may use a verb for the objects of the client.
func (r *resourceClient) grant(ctx context.Context, verb, plan string) (grant []byte, err error) {
	if verb == bus.VerbPlan {
		var reply coppicev1.PlanReply
		err = r.c.read(ctx, r.api(verb), &coppicev1.PlanRequest{AskGrant: true}, &reply)
		grant = reply.GetGrant()
	} else {
		var reply coppicev1.ObjectsReply
		err = r.c.call(ctx, r.api(verb), &coppicev1.DeleteRequest{AskGrant: true, Plan: plan}, &reply)
		grant = reply.GetGrant()
	}
	if err == nil && len(grant) == 0 {
		err = &Error{Reason: ErrMethodNotAllowed, Message: verb + ": the graph service gives no grants, and cannot delete objects of several kinds or namespaces in one commit: it is an older version"}
	}
	return grant, err
}
