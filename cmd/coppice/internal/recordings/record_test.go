package recordings

import (
	"testing"
	"time"
)

// A recording that is flushed after each pause reaches the maximum number of blocks, 1,048,576, only after years.
func TestFlushPause(t *testing.T) {
	t.Parallel()
	if got := flushPause(0); got != flushEvery {
		t.Errorf("the first pause is %v, want %v", got, flushEvery)
	}
	total := time.Duration(0)
	for blocks := range 1 << 20 {
		total += flushPause(blocks)
	}
	if years := total.Hours() / 24 / 365; years < 5 {
		t.Errorf("a recording is full after %.1f years", years)
	}
}
