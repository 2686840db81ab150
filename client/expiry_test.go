package client

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// An answer without a reason is an error, and a veto is at most as long as the graph service accepts.
func TestExpiryAnswer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, a := range []ExpiryAnswer{{Until: now.Add(time.Hour)}, {Agree: true}} {
		if _, err := a.check(now); err == nil {
			t.Errorf("%+v is accepted", a)
		}
	}
	for _, a := range []ExpiryAnswer{{}, {Agree: true, Reason: "merged"}, {Until: now.Add(365 * 24 * time.Hour), Reason: "in use"}} {
		if got, err := a.check(now); err != nil || got != a {
			t.Errorf("%+v becomes %+v: %v", a, got, err)
		}
	}
	got, err := ExpiryAnswer{Until: now.Add(10 * lifecycle.MaxVeto), Reason: "for ever"}.check(now)
	if ahead := got.Until.Sub(now); err != nil || ahead >= lifecycle.MaxVeto || ahead < lifecycle.MaxVeto-2*time.Hour {
		t.Errorf("a veto for ever lasts %v: %v", ahead, err)
	}
}
