//go:build !linux

// Package boottime is a clock that changes of the wall clock do not affect.
package boottime

import "time"

var start = time.Now()

// Now returns how long this process has been running by its monotonic clock. It never
// goes backwards, and changes of the wall clock do not affect it. On operating systems that
// stop that clock while the machine is suspended, the holder of a lease can rely on the
// lease for too long after a suspension.
func Now() time.Duration { return time.Since(start) }
