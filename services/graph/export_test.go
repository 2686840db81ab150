package graph

import "time"

// MeasuresEvery sets the time between two counts of what is pending and queued.
func (c *Config) MeasuresEvery(d time.Duration) { c.measure = d }
