package lease

import "time"

// EndsWithin sets the time within which a lease or a membership is ended.
func (c *Config) EndsWithin(d time.Duration) { c.end = d }
