package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// By default Go collects garbage when it is as large as the live heap, so a process with a
// small live heap collects all the time. Here the garbage of such a process may grow to
// garbage bytes, but to at most longest percent of the live heap, because the live heap may
// grow between two collections. GOGC overrides this, GOMEMLIMIT bounds it.
const (
	garbage = 256 << 20 // bytes
	longest = 400       // percent
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

// sentinel is an unreachable value whose finalizer runs after each garbage collection.
type sentinel struct{ _ [16]byte }

// percentFor is the GOGC for so many bytes that live.
func percentFor(live uint64) int {
	return int(min(max(100, garbage*100/max(live, 1)), longest))
}
