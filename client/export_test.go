package client

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
