package fake

import (
	"context"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// DeleteUnreadable refuses each object, because a fake can read all of its objects.
func (r *resourceClient) DeleteUnreadable(ctx context.Context, name, reason string, opts ...client.DeleteUnreadableOption) (*client.Object, error) {
	o := collect(opts, client.DeleteUnreadableOption.ApplyToDeleteUnreadable)
	results, revision, err := r.commit(ctx, command{
		count: 1, names: []string{name}, dryRun: o.DryRun,
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			if err := lifecycle.CheckReason(reason); err != nil {
				return nil, err
			}
			at.Name = name
			n, err := lifecycle.Find(ctx.View, at)
			if err != nil {
				return nil, err
			}
			return nil, lifecycle.ErrReadable(at, n)
		},
	})
	return one(results, revision, err, o.Reply)
}
