package replay

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The first skipped message is reported at once, and those of the next 10 s together, even
// if no later message follows. No message is reported twice.
func TestSkipsAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []Skipped
		s := Skips{Report: func(k Skipped) { got = append(got, k) }}
		reports := func(when string, want ...Skipped) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Equal(got, want) {
				t.Fatalf("%s: reported %+v, want %+v", when, got, want)
			}
			got = nil
		}
		add := func(position, n, counts uint64, why string) {
			t.Helper()
			if is := s.Add(position, n, why); is != counts {
				t.Errorf("%d messages up to %d: counted %d, want %d", n, position, is, counts)
			}
		}
		add(5, 1, 1, "first")
		reports("at once", Skipped{1, 5, "first"})
		add(5, 1, 0, "again")
		add(6, 1, 1, "second")
		add(9, 5, 3, "third") // some of them were counted before
		reports("within the interval")
		<-time.After(reportSkips) // of the bubble
		reports("after it", Skipped{4, 9, "third"})
		<-time.After(reportSkips) // of the bubble
		reports("after a quiet interval")
		add(10, 1, 1, "fourth")
		reports("at once again", Skipped{1, 10, "fourth"})
		add(11, 1, 1, "fifth")
		s.Stop()
		reports("at the end", Skipped{1, 11, "fifth"})
		<-time.After(reportSkips) // of the bubble
		reports("after the end")
	})
}
