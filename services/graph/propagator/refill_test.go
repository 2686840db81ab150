package propagator_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// A call that cannot be published is passed over also where it waited as a row.
func TestRefillPassesOver(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	for _, n := range []string{"a", "b", "c"} {
		realm.Create("pods/"+n, &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	}
	realm.Create("pods/d", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/y"}})
	r := run(t, realm, 0, func(c *propagator.Config) {
		c.Limits = propagator.Limits{Calls: 1, Bytes: 1 << 20, IdleCalls: 10, IdleBytes: 1 << 20}
	})
	realm.Delete("pods/a", lifecycle.Background)
	testkit.WaitFor(t, r.ctx, "the call of a", func() bool { return len(r.js.take()) == 1 })
	ub := realm.UID("pods/b").String()
	var refused atomic.Bool
	r.js.refusingWhat(func(m *nats.Msg) (error, error) {
		if strings.Contains(m.Subject, ub) {
			refused.Store(true)
			return nats.ErrMaxPayload, nil
		}
		return nil, nil
	})
	realm.Delete("pods/b", lifecycle.Background)
	realm.Delete("pods/d", lifecycle.Background)
	testkit.WaitFor(t, r.ctx, "the call of d: that of b waits as a row by then", func() bool { return len(r.js.take()) == 1 })
	realm.RemoveFinalizer("pods/a", "example.com/x")
	testkit.WaitFor(t, r.ctx, "a refill to try the call of b", refused.Load)
	realm.Delete("pods/c", lifecycle.Background)
	testkit.WaitFor(t, r.ctx, "the call of c, though that of b cannot be published", func() bool { return len(r.js.take()) == 1 })
}

// Parked calls use up no share of the stream.
func TestParkedCallsLeaveRoom(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, n := range names {
		realm.Create("pods/"+n, &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	}
	parked := map[string]bool{}
	for _, n := range []string{"a", "b", "c"} {
		parked[realm.UID("pods/"+n).String()] = true
	}
	js := &published{}
	p := propagator.New(propagator.Config{
		Realm: bus.DefaultRealm, State: realm.State, JS: js,
		Queued: func(context.Context, string) (uint64, error) { return 0, nil },
		Parked: func(_ context.Context, subject string) (bool, error) {
			for u := range parked {
				if strings.Contains(subject, u) {
					return true, nil
				}
			}
			return false, nil
		},
		Now:    func() time.Time { return realm.Clock.Time() },
		Limits: propagator.Limits{Calls: 4, Bytes: 1 << 20, IdleCalls: 100, IdleBytes: 1 << 20},
	})
	realm.Applied = func(_ uint64, _ []state.Change, rows []state.WorkChange) { p.Notify(rows) }
	must.Succeed(t, p.Publish(t.Context()))
	for _, n := range names {
		realm.Delete("pods/"+n, lifecycle.Background)
		must.Succeed(t, p.Publish(t.Context()))
	}
	if n := len(js.take()); n != 4 {
		t.Errorf("%d calls were published at first, want 4", n)
	}
	realm.RemoveFinalizer("pods/d", "example.com/x") // 1 of 4 is done, 3 are parked
	for i := range 50 {
		realm.Clock = realm.Clock.Add(10 * time.Minute)
		if i%5 == 0 {
			if _, err := p.Republish(t.Context(), &coppicev1.RepublishRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		must.Succeed(t, p.Publish(t.Context()))
	}
	published := map[string]bool{}
	for _, m := range js.take() {
		published[m.Subject] = true
	}
	for _, n := range []string{"e", "f"} {
		subject := bus.Finalize{Realm: bus.DefaultRealm, Plural: "pods", UID: realm.UID("pods/" + n).String(), Finalizer: "example.com/x"}.Subject()
		if !published[subject] {
			t.Errorf("the call of %s was never published", n)
		}
	}
}

// While it is not known whether calls are parked, those that may have been lost wait, and other work does not.
func TestUnreadableParkedWorkDelaysNothingElse(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	for _, n := range []string{"a", "b", "c", "d"} {
		realm.Create("pods/"+n, &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	}
	asked, broken := 0, errors.New("the server does not reply")
	js := &published{}
	p := propagator.New(propagator.Config{
		Realm: bus.DefaultRealm, State: realm.State, JS: js,
		Queued: func(context.Context, string) (uint64, error) { return 0, nil },
		Parked: func(context.Context, string) (bool, error) {
			asked++
			return false, broken
		},
		Now: func() time.Time { return realm.Clock.Time() },
	})
	realm.Applied = func(_ uint64, _ []state.Change, rows []state.WorkChange) { p.Notify(rows) }
	publishes := func(calls int) {
		t.Helper()
		must.Succeed(t, p.Publish(t.Context()))
		if n := len(js.take()); n != calls {
			t.Errorf("%d calls were published, want %d", n, calls)
		}
	}
	republish := func() {
		t.Helper()
		realm.Clock = realm.Clock.Add(10 * time.Minute)
		if _, err := p.Republish(t.Context(), &coppicev1.RepublishRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	publishes(0)
	realm.Delete("pods/a", lifecycle.Background)
	realm.Delete("pods/b", lifecycle.Background)
	publishes(2)
	asked = 0
	republish()
	realm.Delete("pods/c", lifecycle.Background)
	publishes(1)
	if asked != 1 {
		t.Errorf("parked work was read %d times in a round although that failed, want once", asked)
	}
	broken = nil
	republish()
	publishes(3)
}

// A call that was counted while its object was removed counts no more, also if the round fails.
func TestFailedRoundLeavesNoCount(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	names := []string{"n0", "n1", "n2"}
	ids := map[string]string{}
	for _, n := range names {
		realm.Create("pods/"+n, &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
		ids[n] = realm.UID("pods/" + n).String()
		realm.Delete("pods/"+n, lifecycle.Background)
	}
	js := &published{}
	failed := false
	p := propagator.New(propagator.Config{
		Realm: bus.DefaultRealm, State: realm.State, JS: js,
		Queued: func(context.Context, string) (uint64, error) { return 0, nil },
		Parked: func(_ context.Context, subject string) (bool, error) {
			if failed {
				return false, nil
			}
			if strings.Contains(subject, ids["n0"]) {
				realm.RemoveFinalizer("pods/n1", "example.com/x")
			}
			if strings.Contains(subject, ids["n2"]) {
				failed = true
				return false, errors.New("nats: timeout")
			}
			return false, nil
		},
		Now: func() time.Time { return realm.Clock.Time() },
	})
	realm.Applied = func(_ uint64, _ []state.Change, rows []state.WorkChange) { p.Notify(rows) }
	for range 5 {
		must.Succeed(t, p.Publish(t.Context()))
	}
	realm.RemoveFinalizer("pods/n0", "example.com/x")
	realm.RemoveFinalizer("pods/n2", "example.com/x")
	for range 5 {
		must.Succeed(t, p.Publish(t.Context()))
	}
	if calls, _ := p.QuotaTotal(); !failed || calls != 0 {
		t.Errorf("%d calls count, and no object is left (a round failed: %t)", calls, failed)
	}
}
