package client

import "time"

// WaitLong has writes wait for others for as long as it takes.
func (c *Client) WaitLong() *Client {
	c.queues.longest = time.Hour
	return c
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
