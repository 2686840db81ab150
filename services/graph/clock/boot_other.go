//go:build !linux

package clock

import "time"

var start = time.Now()

// SinceBoot is how long this process has been running by its monotonic clock. It
// never goes backwards, and no change of the wall clock moves it. Where the
// operating system stops that clock while the machine is suspended, it stands
// still: a lease may then be relied on for too long after a suspension.
func SinceBoot() time.Duration { return time.Since(start) }
