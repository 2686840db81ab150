//go:build !linux

package bench

// usageKnown is false: only Linux has the files in /proc from which a process reads what
// other processes use. Results leave the figures out.
const usageKnown = false

// cpuSeconds returns 0, which is not the CPU time: see usageKnown.
func cpuSeconds([]int) (float64, error) { return 0, nil }

// peakRSS returns 0, which is not the memory: see usageKnown.
func peakRSS([]int) (uint64, error) { return 0, nil }

// currentRSS returns 0, which is not the memory: see usageKnown.
func currentRSS([]int) (uint64, error) { return 0, nil }
