package propagator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// What becomes due is told once, the earliest time that was said; what is too
// much to remember is told of as all.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := newSchedule()
	start := lifecycle.TimeOf(time.Unix(1000, 0))
	take := func(at time.Duration, all bool, want ...uid.UID) {
		t.Helper()
		uids, gotAll := s.take(start.Add(at))
		slices.Sort(uids)
		if !slices.Equal(uids, want) || gotAll != all {
			t.Fatalf("after %v: %v, all: %t; want %v, %t", at, uids, gotAll, want, all)
		}
	}
	s.add("a", start.Add(2*time.Second))
	s.add("a", start.Add(time.Second))
	s.add("a", start.Add(3*time.Second))
	s.add("b", start.Add(time.Second+time.Millisecond))
	s.add("c", start.Add(time.Second))
	s.add("d", lifecycle.Never)
	s.drop("c")
	take(time.Second-1, false)
	take(time.Second, false, "a")
	take(time.Second+dueStep, false, "b")
	if s.next != lifecycle.Never {
		t.Fatalf("the next is at %v, and nothing is left", s.next)
	}
	for i := range maxHints {
		s.add(uid.UID(fmt.Sprint(i)), start.Add(time.Hour))
	}
	s.add("e", start.Add(2*time.Second))
	take(time.Second, false)
	take(2*time.Second, true)
	if s.next != start.Add(time.Hour) {
		t.Fatalf("the next is at %v, want after an hour", s.next)
	}
}
