//go:build !linux

package clock

import "time"

var start = time.Now()

// SinceBoot returns how long this process has been running by its monotonic clock. It never
// goes backwards, and changes of the wall clock do not affect it. On operating systems that
// stop that clock while the machine is suspended, the holder of a lease can rely on the
// lease for too long after a suspension.
func SinceBoot() time.Duration { return time.Since(start) }
