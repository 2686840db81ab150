package propagator

import (
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// schedule is when rows are to be looked at because something becomes due. It
// is bounded: where there are too many, all rows are looked at instead.
type schedule struct {
	next lifecycle.Time // no later than any, Never if there is none
	at   map[uid.UID]lifecycle.Time
	all  lifecycle.Time // when all rows are
}

// dueStep is to what times are rounded up, so that what becomes due in quick
// succession is looked at together.
const dueStep = 100 * time.Millisecond

func newSchedule() schedule {
	return schedule{next: lifecycle.Never, at: map[uid.UID]lifecycle.Time{}, all: lifecycle.Never}
}

// add remembers a time for u, the earliest, and reports whether next is earlier
// for it.
func (s *schedule) add(u uid.UID, t lifecycle.Time) (earlier bool) {
	if t == lifecycle.Never {
		return false
	}
	t = lifecycle.TimeOf(t.Time().Add(dueStep - time.Microsecond).Truncate(dueStep))
	before, known := s.at[u]
	switch {
	case known:
		s.at[u] = min(t, before)
	case len(s.at) < maxHints:
		s.at[u] = t
	default:
		s.all = min(s.all, t)
	}
	earlier = t < s.next
	s.next = min(s.next, t)
	return earlier
}

// drop forgets u.
func (s *schedule) drop(u uid.UID) { delete(s.at, u) }

// take returns what has become due, and forgets it.
func (s *schedule) take(now lifecycle.Time) (uids []uid.UID, all bool) {
	if s.next > now {
		return nil, false
	}
	if all = s.all <= now; all {
		s.all = lifecycle.Never
	}
	s.next = s.all
	for u, t := range s.at {
		if t <= now {
			uids = append(uids, u)
			delete(s.at, u)
		} else {
			s.next = min(s.next, t)
		}
	}
	return uids, all
}
