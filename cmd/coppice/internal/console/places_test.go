package console

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A user searches the log with few requests at once, all users with some more; others wait, and too many are refused.
func TestSearches(t *testing.T) {
	t.Parallel()
	all := make(chan struct{}, 3)
	ana, eve := newPlaces("search the log", all, searchesOfUser), newPlaces("search the log", all, searchesOfUser)
	take := func(p *places) func() {
		t.Helper()
		leave, err := p.take(t.Context())
		must.Succeed(t, err)
		return leave
	}
	leave := take(ana)
	take(ana)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ana.take(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a third search of a user: %v", err)
	}
	take(eve)
	if _, err := eve.take(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a fourth search of all users: %v", err)
	}
	waited := make(chan func(), maxWaitingRequests)
	for range maxWaitingRequests {
		go func() {
			leave, err := ana.take(t.Context())
			if err != nil {
				leave = nil
			}
			waited <- leave
		}()
	}
	for len(ana.waiting) < cap(ana.waiting) {
		runtime.Gosched()
	}
	_, err := ana.take(t.Context())
	if f := failureOf(err); err == nil || f.status != 429 || !f.Retry {
		t.Errorf("a request beyond those that wait: %v", err)
	}
	leave()
	for range maxWaitingRequests {
		leave := receive(t, "a place", waited)
		if leave == nil {
			t.Fatal("a request that waited was refused")
		}
		leave()
	}
	if len(ana.own) != 1 || len(all) != 2 || len(ana.waiting) != 1 {
		t.Errorf("after all: %d of the user, %d of all, %d wait", len(ana.own), len(all), len(ana.waiting))
	}
}

// A user has so many live views of events. Another one is refused.
func TestLiveEventViews(t *testing.T) {
	t.Parallel()
	r := &realm{name: "default", user: &user{following: make(chan struct{})}}
	err := r.followEvents(t.Context(), nil, 0, func(*view.Events) {})
	if f := failureOf(err); !errors.Is(err, client.ErrTooManyRequests) || !f.Retry {
		t.Errorf("a view beyond the limit: %v", err)
	}
}

// A part of the log gets a time from the commit next to it.
func TestDatesOfMarks(t *testing.T) {
	t.Parallel()
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	s := &search{}
	for range 2 {
		s.mark(view.EventRow{Mark: markSkipped})
	}
	s.date(1, at(9))
	s.mark(view.EventRow{Mark: markLost, Time: at(3), Latest: at(3)})
	s.date(0, time.Time{})
	s.date(0, at(5))
	s.date(0, at(7))
	for i, want := range []int64{5, 9, 3} {
		if is := s.marked[i]; is.Time.Unix() != want || is.Latest.Unix() != want {
			t.Errorf("row %d has the time %v, want %d", i, is.Time, want)
		}
	}
}
