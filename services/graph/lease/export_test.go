package lease

import "time"

// EndsWithin sets the time within which a lease or a membership is ended.
func (c *Config) EndsWithin(d time.Duration) { c.end = d }

// LooksEvery sets the time between two looks at the buckets.
func (c *Config) LooksEvery(d time.Duration) { c.look = d }
