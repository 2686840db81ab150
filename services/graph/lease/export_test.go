package lease

import (
	"context"
	"time"
)

// EndsWithin sets the time within which a lease or a membership is ended.
func (c *Config) EndsWithin(d time.Duration) { c.end = d }

// LooksEvery sets the time between two looks at the buckets.
func (c *Config) LooksEvery(d time.Duration) { c.look = d }

// Occupy does what a call does that opens a bucket and gets no reply.
func (m *Member) Occupy() { m.opening <- struct{}{} }

// Open opens the bucket of members.
func (m *Member) Open(ctx context.Context) error {
	_, err := m.members(ctx)
	return err
}
