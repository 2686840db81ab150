package client

import (
	"context"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Status is what is left to do in a realm.
type Status = coppicev1.StatusReply

// Status returns what is left to do in the realm, after everything that was
// acknowledged before the call. It is idle when the collector, the finalizers
// and the agents have nothing left to do; dependents that only unknown owners
// keep do not count.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var reply Status
	err := c.call(ctx, bus.RealmAPI(c.realm, c.actor, bus.VerbStatus), false, &coppicev1.StatusRequest{}, &reply)
	return &reply, err
}

// Revision is the newest revision that a reply to this client has named: with
// it as MinRevision a read from any replica includes all that this client has
// seen and written. It is safe for concurrent use.
func (c *Client) Revision() uint64 { return c.newest.Load() }

// saw remembers the revision of a reply.
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
