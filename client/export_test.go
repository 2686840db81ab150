package client

import (
	"maps"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
)

// WaitLong has writes wait for others for as long as it takes.
func (c *Client) WaitLong() *Client {
	c.queues.longest = time.Hour
	return c
}

// TakeLong has those requests that are on their way count as ones that take long.
func (c *Client) TakeLong(takes time.Duration) {
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	for _, q := range c.queues.of {
		q.takes = takes
	}
}

// More reports whether what waits may go with one more request.
func (c *Client) More() bool {
	c.queues.mu.Lock()
	apis := slices.Collect(maps.Keys(c.queues.of))
	c.queues.mu.Unlock()
	return slices.ContainsFunc(apis, func(a bus.API) bool { return c.queues.late(a, c.nc.MaxPayload()) != nil })
}

// Waiting is how many writes wait until others have landed.
func (c *Client) Waiting() (n int) {
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	for _, q := range c.queues.of {
		n += len(q.waiting)
	}
	return n
}

// Idle reports whether nothing is kept of writes that have ended.
func (c *Client) Idle() bool {
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	return len(c.queues.of) == 0
}

// SetClock has the ids of commands drawn by a clock that is wrong by so much.
func (c *Client) SetClock(wrong time.Duration) {
	c.commands.Now = func() time.Time { return time.Now().Add(wrong) }
}
