package client

import (
	"time"
)

// WaitLong has creations wait in the queue until a request completes.
func (c *Client) WaitLong() *Client {
	c.batches.maxWait = time.Hour
	return c
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
