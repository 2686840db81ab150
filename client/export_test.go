package client

import (
	"maps"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
)

// WaitLong has creations wait in the queue until a request completes.
func (c *Client) WaitLong() *Client {
	c.batches.maxWait = time.Hour
	return c
}

// TakeLong makes the requests that wait for replies count as slow ones.
func (c *Client) TakeLong(d time.Duration) {
	c.batches.mu.Lock()
	defer c.batches.mu.Unlock()
	for _, q := range c.batches.queues {
		q.duration = d
	}
}

// More reports whether a late request may take what waits.
func (c *Client) More() bool {
	c.batches.mu.Lock()
	apis := slices.Collect(maps.Keys(c.batches.queues))
	c.batches.mu.Unlock()
	return slices.ContainsFunc(apis, func(a bus.API) bool { return c.batches.late(a, c.nc.MaxPayload()) != nil })
}

// Waiting returns the number of objects in queues.
func (c *Client) Waiting() (n int) {
	c.batches.mu.Lock()
	defer c.batches.mu.Unlock()
	for _, q := range c.batches.queues {
		n += len(q.waiting)
	}
	return n
}

// Idle reports whether no creation waits for a reply.
func (c *Client) Idle() bool {
	if c.batches == nil {
		return true
	}
	c.batches.mu.Lock()
	defer c.batches.mu.Unlock()
	return len(c.batches.queues) == 0
}

// SetClock sets the clock for the ids of commands wrong by a duration.
func (c *Client) SetClock(wrong time.Duration) {
	c.commands.Now = func() time.Time { return time.Now().Add(wrong) }
}
