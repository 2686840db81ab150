//go:build !linux

package bench

// cpuSeconds returns 0: it is not implemented for this system.
func cpuSeconds([]int) (float64, error) { return 0, nil }

// peakRSS returns 0: it is not implemented for this system.
func peakRSS([]int) (uint64, error) { return 0, nil }

// currentRSS returns 0: it is not implemented for this system.
func currentRSS([]int) (uint64, error) { return 0, nil }
