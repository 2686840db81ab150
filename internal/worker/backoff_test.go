package worker

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	c := &Config{Backoff: 200 * time.Millisecond, MaxBackoff: time.Minute}
	for attempts, want := range map[uint64]time.Duration{
		1: 200 * time.Millisecond, 2: 400 * time.Millisecond, 3: 800 * time.Millisecond,
		9: 51200 * time.Millisecond, 10: time.Minute, 1 << 60: time.Minute,
	} {
		if got := backoff(c, attempts); got != want {
			t.Errorf("after %d attempts the pause is %s, want %s", attempts, got, want)
		}
	}
}
