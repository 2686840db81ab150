package fake

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// No expiry policy is evaluated here, so that no object has a notice.

func (r *resourceClient) Veto(ctx context.Context, name string, until time.Time, reason string, opts ...client.VetoOption) error {
	return r.veto(ctx, name, lifecycle.NoticeAnswer{Actor: r.c.Actor(), Until: lifecycle.TimeOf(until), Reason: reason}, opts)
}

func (r *resourceClient) Agree(ctx context.Context, name, reason string, opts ...client.VetoOption) error {
	return r.veto(ctx, name, lifecycle.NoticeAnswer{Actor: r.c.Actor(), Reason: reason}, opts)
}

func (r *resourceClient) veto(ctx context.Context, name string, answer lifecycle.NoticeAnswer, opts []client.VetoOption) error {
	o := collect(opts, client.VetoOption.ApplyToVeto)
	results, revision, err := r.commit(ctx, command{
		count: 1, names: []string{name},
		check: func() error {
			if err := lifecycle.CheckReason(answer.Reason); err != nil {
				return err
			}
			return nil
		},
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = name
			n, err := lifecycle.Find(ctx, at)
			if err == nil {
				_, err = lifecycle.Answered(ctx, at, n, nil, answer, preconditions(o.UID, o.ResourceVersion))
			}
			return nil, err
		},
	})
	if err == nil {
		err = results[0].err
	}
	if err == nil && o.Reply != nil {
		*o.Reply = client.Reply{Revision: revision}
	}
	return err
}
