package client

import (
	"context"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Status returns the pending work of the realm, after everything that was
// acknowledged before the call. The realm is idle when neither the collector nor
// finalizers and agents have work. Dependents that only unknown owners keep do not count.
func (c *Client) Status(ctx context.Context, opts ...CallOption) (*Status, error) {
	o := collect(opts, CallOption.ApplyToCall)
	var reply Status
	if err := c.call(ctx, bus.RealmAPI(c.realm, c.actor, bus.VerbStatus), &coppicev1.StatusRequest{}, &reply); err != nil {
		return nil, err
	}
	o.replied(&reply)
	return &reply, nil
}

// Revision returns the newest revision that a reply to this client has named. With
// it as MinRevision, a read from any replica includes everything that this client
// has read and written.
func (c *Client) Revision() uint64 { return c.newest.Load() }

// saw keeps the revision of a reply for Revision.
func (c *Client) saw(reply any) {
	r, ok := reply.(interface{ GetRevision() uint64 })
	if !ok {
		return
	}
	for {
		was, now := c.newest.Load(), r.GetRevision()
		if now <= was || c.newest.CompareAndSwap(was, now) {
			return
		}
	}
}
