package lifecycle_test

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// A period ends when it has passed without the pauses of the realm. Pauses of events that do not say
// since when the realm stood still stop no clock.
func TestPauses(t *testing.T) {
	t.Parallel()
	var r lifecycle.Realm
	pause := func(since, resumed lifecycle.Time) {
		r = r.After(lifecycle.RealmChange{Origin: lifecycle.Origin{Sequence: 1}, Paused: true, Since: since}, since+1)
		if !r.Paused {
			t.Errorf("%+v is not paused", r)
		}
		if resumed != lifecycle.Never {
			r = r.After(lifecycle.RealmChange{}, resumed)
		}
	}
	pause(0, 50)
	if r.Paused || len(r.Pauses) > 0 {
		t.Errorf("the realm is %+v", r)
	}
	pause(100, 200)
	once := r
	pause(210, 300)
	pause(400, lifecycle.Never)
	for _, c := range []struct{ start, period, want lifecycle.Time }{
		{10, 20, 30},
		{0, 100, 100}, // over when the realm stopped
		{0, 101, 201},
		{100, 1, 201}, // by its last commit
		{100, 0, 100},
		{150, 5, 205}, // within: it begins when the realm is resumed
		{150, 10, 210},
		{95, 16, 301}, // over two pauses
		{200, 10, 210},
		{300, 100, 400},
		{300, 101, lifecycle.Never},
		{95, 115, 400},
		{95, 116, lifecycle.Never},
		{400, 1, lifecycle.Never},
	} {
		if got := r.Pauses.End(c.start, time.Duration(c.period)*time.Microsecond); got != c.want {
			t.Errorf("%d after %d: %d, want %d", c.period, c.start, got, c.want)
		}
	}
	if got := once.Pauses.End(95, 116*time.Microsecond); got != 311 {
		t.Errorf("later pauses have changed the realm before them: %d", got)
	}
}
