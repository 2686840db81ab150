package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A process with little that lives collects its garbage all the time: Go lets
// the garbage grow as large as what lives. Here it may grow to garbage bytes
// where less lives, which costs as much memory and no more. GOGC overrides it,
// GOMEMLIMIT bounds it.
const (
	garbage = 256 << 20 // bytes
	// longest is the most that GOGC becomes: what lives may grow between two
	// collections.
	longest = 400
)

// paceCollection adapts GOGC after each collection of garbage.
func paceCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var again func(*sentinel)
	again = func(s *sentinel) {
		metrics.Read(live)
		debug.SetGCPercent(percentFor(live[0].Value.Uint64()))
		runtime.SetFinalizer(s, again) // at the next collection
	}
	again(&sentinel{})
}

// sentinel is what is found to be garbage at each collection.
type sentinel struct{ _ [16]byte }

// percentFor is the GOGC for so many bytes that live.
func percentFor(live uint64) int {
	return int(min(max(100, garbage*100/max(live, 1)), longest))
}
