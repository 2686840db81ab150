package fake

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// message returns the options of a deletion as a request has them.
func message(o *client.DeleteOptions) *coppicev1.DeleteOptions {
	m := &coppicev1.DeleteOptions{PropagationPolicy: string(o.Propagation), Preconditions: preconditions(o.UID, o.ResourceVersion)}
	if o.GracePeriod != nil {
		seconds := int64((*o.GracePeriod + time.Second - 1) / time.Second)
		if *o.GracePeriod < 0 {
			seconds = -1 // counts as 1 s (A4.5)
		}
		m.GracePeriodSeconds = &seconds
	}
	return m
}

// deletions returns the results of a command that deletes objects.
func deletions(results []result, revision uint64, err error, into *client.Reply) ([]client.DeleteResult, error) {
	all, err := batch(results, revision, err, into)
	if err != nil {
		return nil, err
	}
	list := make([]client.DeleteResult, len(all))
	for i, x := range all {
		list[i] = client.DeleteResult{Object: x.Object, Err: x.Err, Warnings: x.Warnings, Revision: x.Revision}
		switch results[i].code {
		case 200:
			list[i].State = client.Removed
		case 202:
			list[i].State = client.Pending
		}
	}
	return list, nil
}

func (r *resourceClient) Delete(ctx context.Context, name string, opts ...client.DeleteOption) (*client.DeleteResult, error) {
	list, err := r.DeleteBatch(ctx, []string{name}, opts...)
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

func (r *resourceClient) DeleteBatch(ctx context.Context, names []string, opts ...client.DeleteOption) ([]client.DeleteResult, error) {
	o := collect(opts, client.DeleteOption.ApplyToDelete)
	q := command{
		count: len(names), names: names, dryRun: o.DryRun, atomic: o.Plan != "",
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = names[i]
			return lifecycle.Delete(ctx, at, "", message(&o))
		},
	}
	if o.Plan != "" {
		q.check = func() error { return r.c.checkPlan([]part{{r, names, &o}}, o.Plan) }
	}
	results, revision, err := r.commit(ctx, q)
	return deletions(results, revision, err, o.Reply)
}

// DeletePlanned carries out the plan of several deletions, all in one commit.
func (c *Client) DeletePlanned(ctx context.Context, plan string, of []client.Deletion, opts ...client.DeletePlannedOption) ([]client.DeleteResult, error) {
	o := collect(opts, client.DeletePlannedOption.ApplyToDeletePlanned)
	parts, err := c.parts(of)
	if err != nil {
		return nil, err
	}
	if plan == "" {
		return nil, lifecycle.ErrBadRequest("delete by a plan: no plan is named; PlanDeletions returns one")
	}
	type object struct {
		name string
		part part
	}
	var objects []object
	for _, p := range parts {
		for _, name := range p.names {
			objects = append(objects, object{name, p})
		}
	}
	results, revision, err := parts[0].of.commit(ctx, command{
		count: len(objects), dryRun: o.DryRun, atomic: true,
		check: func() error { return c.checkPlan(parts, plan) },
		decide: func(ctx *lifecycle.Context, _ lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			p := objects[i].part
			kind := ctx.Kinds().Resource(p.of.resource.String())
			if kind == nil {
				return nil, lifecycle.ErrUnknownKind(p.of.resource.String())
			}
			return lifecycle.Delete(ctx, lifecycle.Key{Kind: kind, Namespace: p.of.namespace, Name: objects[i].name}, "", message(p.o))
		},
	})
	return deletions(results, revision, err, o.Reply)
}

func (r *resourceClient) DeleteCollection(ctx context.Context, selector string, opts ...client.DeleteOption) ([]client.DeleteResult, error) {
	if selector == "" {
		return nil, lifecycle.ErrBadRequest("delete a collection: the label selector is empty; use DeleteEverything to delete all objects")
	}
	return r.deleteCollection(ctx, selector, opts)
}

func (r *resourceClient) DeleteEverything(ctx context.Context, opts ...client.DeleteOption) ([]client.DeleteResult, error) {
	return r.deleteCollection(ctx, "", opts)
}

func (r *resourceClient) deleteCollection(ctx context.Context, labels string, opts []client.DeleteOption) ([]client.DeleteResult, error) {
	o := collect(opts, client.DeleteOption.ApplyToDelete)
	if o.Plan != "" {
		return nil, lifecycle.ErrBadRequest("delete a collection: ByPlan is not allowed; name the objects of the plan in DeleteBatch")
	}
	match, err := parseSelector(labels)
	if err != nil {
		return nil, err
	}
	// The names that exist are found first, so that the command knows its size. No other
	// call comes between: an object that is created meanwhile is not deleted.
	r.c.mu.Lock()
	r.c.begin()
	at, err := r.key(r.c.realm)
	if err == nil && at.Kind.Namespaced() && r.namespace == "" {
		err = lifecycle.ErrBadRequest("deletecollection of %s names a namespace", at.Kind.Resource())
	}
	if err == nil {
		if refusal := lifecycle.ValidateDeleteOptions(at, message(&o)); refusal != nil {
			err = refusal
		}
	}
	var found []lifecycle.Object
	if err == nil {
		found = objects(r.c.realm, at, match, true)
	}
	revision := r.c.realm.Revision
	r.c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return deletions(nil, revision, ctx.Err(), o.Reply)
	}
	results, revision, err := r.commit(ctx, command{
		count: len(found), dryRun: o.DryRun, collection: true,
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Namespace, at.Name = found[i].Namespace, found[i].Name
			if ctx.Lookup(at.Kind, at.Namespace, at.Name) != found[i].UID {
				return &lifecycle.Outcome{Code: 200, Object: found[i]}, nil // A6.2
			}
			return lifecycle.Delete(ctx, at, "", message(&o))
		},
	})
	return deletions(results, revision, err, o.Reply)
}
