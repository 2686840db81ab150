package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// UsageKnown reports whether the functions below return what processes use.
const UsageKnown = true

// ticks is the number of clock ticks in a second in /proc, on every architecture.
const ticks = 100

// CPUSeconds returns the CPU time of processes in user mode and in the kernel:
// of this process to the microsecond, of each other to two ticks.
func CPUSeconds(pids []int) (float64, error) {
	sum := 0.0
	for _, pid := range pids {
		if pid == os.Getpid() {
			var u syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
				return 0, err
			}
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		// The second field is a name in parentheses; user and system time are
		// the 14th and the 15th.
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		for _, f := range fields[11:13] {
			n, err := strconv.ParseUint(string(f), 10, 64)
			if err != nil {
				return 0, err
			}
			sum += float64(n) / ticks
		}
	}
	return sum, nil
}

// PeakRSS returns the sum of the largest resident memory of processes since they
// started, in bytes.
func PeakRSS(pids []int) (uint64, error) { return statusOf(pids, "VmHWM") }

// CurrentRSS returns the sum of the resident memory of processes now, in bytes.
func CurrentRSS(pids []int) (uint64, error) { return statusOf(pids, "VmRSS") }

// statusOf returns the sum, in bytes, of a field in kB of processes' statuses.
func statusOf(pids []int, field string) (uint64, error) {
	var sum uint64
	for _, pid := range pids {
		kib, err := status(pid, field)
		if err != nil {
			return 0, err
		}
		sum += kib << 10
	}
	return sum, nil
}

// status returns a field in kB of a process's status.
func status(pid int, field string) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, field)
}
