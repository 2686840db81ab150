package fake

import (
	"context"
	"fmt"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// RunLeader calls lead, as Client.RunLeader does, while no other call with the same lease does. The lease is never lost: the
// context of lead ends only with ctx.
func (c *Client) RunLeader(ctx context.Context, lease string, lead func(context.Context) error, opts ...client.LeaderOption) error {
	if err := bus.CheckLease(lease); err != nil {
		return fmt.Errorf("lease %s: %w", lease, lifecycle.ErrBadRequest("%v", err))
	}
	c.mu.Lock()
	if c.leases[lease] == nil {
		c.leases[lease] = make(chan struct{}, 1)
	}
	place := c.leases[lease]
	c.mu.Unlock()
	select {
	case place <- struct{}{}:
		defer func() { <-place }()
	case <-ctx.Done():
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	if o := collect(opts, client.LeaderOption.ApplyToLeader); o.OnState != nil {
		o.OnState(client.LeaderState{Leading: true, Leader: o.Name})
		defer o.OnState(client.LeaderState{})
	}
	return lead(ctx)
}
