package main

import (
	"fmt"
	"time"
)

// number is the value of a flag that counts something.
type number struct {
	flag  string
	value int
}

// atLeastOne refuses numbers below 1: with a default instead of the number that was written, a
// service would do something else than its operator expects.
func atLeastOne(numbers ...number) error {
	for _, n := range numbers {
		if n.value < 1 {
			return fmt.Errorf("%s %d: at least 1 is needed", n.flag, n.value)
		}
	}
	return nil
}

// duration is the value of a flag with a time.
type duration struct {
	flag  string
	value time.Duration
}

// positive refuses durations that are not more than 0.
func positive(durations ...duration) error {
	for _, d := range durations {
		if d.value <= 0 {
			return fmt.Errorf("%s %v: more than 0 is needed", d.flag, d.value)
		}
	}
	return nil
}

// checkPort refuses ports on which no server can listen.
func checkPort(port int) error {
	if port != -1 && (port < 1 || port > 65535) {
		return fmt.Errorf("--port %d: choose 1 to 65535, or -1 for any free port", port)
	}
	return nil
}
