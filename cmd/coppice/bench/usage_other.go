//go:build !linux

package bench

// cpuSeconds is not known here.
func cpuSeconds([]int) (float64, error) { return 0, nil }

// peakRSS is not known here.
func peakRSS([]int) (uint64, error) { return 0, nil }

// currentRSS is not known here.
func currentRSS([]int) (uint64, error) { return 0, nil }
