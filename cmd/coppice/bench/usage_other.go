//go:build !linux

package bench

// UsageKnown is false: only Linux has the files in /proc from which a process reads what
// other processes use. Results leave the figures out.
const UsageKnown = false

// CPUSeconds returns 0, which is not the CPU time: see UsageKnown.
func CPUSeconds([]int) (float64, error) { return 0, nil }

// PeakRSS returns 0, which is not the memory: see UsageKnown.
func PeakRSS([]int) (uint64, error) { return 0, nil }

// CurrentRSS returns 0, which is not the memory: see UsageKnown.
func CurrentRSS([]int) (uint64, error) { return 0, nil }
