package fake

import (
	"context"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

func (r *resourceClient) Protect(ctx context.Context, names []string, reason string, opts ...client.ProtectOption) ([]client.Result, error) {
	return r.protect(ctx, names, reason, opts, func(ctx *lifecycle.Context, at lifecycle.Key, o *client.ProtectOptions) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Protect(ctx, at, r.c.Actor(), reason, preconditions(o.UID, o.ResourceVersion))
	})
}

func (r *resourceClient) Unprotect(ctx context.Context, names []string, reason string, opts ...client.ProtectOption) ([]client.Result, error) {
	return r.protect(ctx, names, reason, opts, func(ctx *lifecycle.Context, at lifecycle.Key, o *client.ProtectOptions) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Unprotect(ctx, at, preconditions(o.UID, o.ResourceVersion))
	})
}

func (r *resourceClient) protect(
	ctx context.Context, names []string, reason string, opts []client.ProtectOption,
	decide func(*lifecycle.Context, lifecycle.Key, *client.ProtectOptions) (*lifecycle.Outcome, *lifecycle.Error),
) ([]client.Result, error) {
	o := collect(opts, client.ProtectOption.ApplyToProtect)
	results, revision, err := r.commit(ctx, command{
		count: len(names), names: names, dryRun: o.DryRun,
		check: func() error {
			if err := lifecycle.CheckReason(reason); err != nil {
				return err
			}
			return nil
		},
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = names[i]
			return decide(ctx, at, &o)
		},
	})
	return batch(results, revision, err, o.Reply)
}
