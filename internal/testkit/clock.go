package testkit

import (
	"sync/atomic"
	"time"
)

// Clock is a wall clock that a test moves. The zero value shows the time of the machine.
type Clock struct{ ahead atomic.Int64 }

// Now is the time of the machine, plus what the test has set.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Set moves the clock to a time after the time of the machine, or before it if d is negative.
func (c *Clock) Set(d time.Duration) { c.ahead.Store(int64(d)) }

// Pass moves the clock forward from where it is.
func (c *Clock) Pass(d time.Duration) { c.ahead.Add(int64(d)) }
