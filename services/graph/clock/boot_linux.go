package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is how long the machine has been running, with the time for which it
// was suspended (CLOCK_BOOTTIME). It never goes backwards, and no change of the
// wall clock moves it. It stands still while a virtual machine is paused or
// restored from a snapshot.
func SinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every Linux since 2.6.39 has it
	}
	return time.Duration(t.Nano())
}
