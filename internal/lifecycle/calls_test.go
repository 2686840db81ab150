package lifecycle_test

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// B6.8: the program that a policy names is called while a notice is not answered, and again 25 minutes before a
// veto ends, so that one call may be lost.
func TestNoticeCalls(t *testing.T) {
	t.Parallel()
	now := lifecycle.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		name string
		n    lifecycle.Notice
		want bool
	}{
		{"no notice", lifecycle.Notice{}, false},
		{"not answered", lifecycle.Notice{Generation: 1, Ends: now.Add(time.Hour)}, true},
		{"not answered, over", lifecycle.Notice{Generation: 1, Ends: now.Add(-time.Hour)}, true},
		{"agreed", lifecycle.Notice{Generation: 1, Answer: lifecycle.NoticeAnswer{Actor: "ana"}}, false},
		{"vetoed", lifecycle.Notice{Generation: 1, Answer: lifecycle.NoticeAnswer{Actor: "ana", Until: now.Add(26 * time.Minute)}}, false},
		{"the veto ends soon", lifecycle.Notice{Generation: 1, Answer: lifecycle.NoticeAnswer{Actor: "ana", Until: now.Add(25 * time.Minute)}}, true},
		{"a lost call can be repeated", lifecycle.Notice{Generation: 1, Answer: lifecycle.NoticeAnswer{Actor: "ana", Until: now.Add(2 * bus.ExpireAgain)}}, true},
		{"the veto has ended", lifecycle.Notice{Generation: 1, Answer: lifecycle.NoticeAnswer{Actor: "ana", Until: now.Add(-time.Hour)}}, true},
	} {
		if got := c.n.Calls(now); got != c.want {
			t.Errorf("%s: called %t, want %t", c.name, got, c.want)
		}
	}
}
