// Package boottime is a clock that changes of the wall clock do not affect.
package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns how long the machine has been running, including the time for which it
// was suspended (CLOCK_BOOTTIME). It never goes backwards, and changes of the wall clock do
// not affect it. It stops while a virtual machine is paused, and between a snapshot of a
// virtual machine and its restoration.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every Linux since 2.6.39 has it
	}
	return time.Duration(t.Nano())
}
