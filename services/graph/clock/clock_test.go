package clock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/clock"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// machine is a machine whose clocks the test sets, and a server's.
type machine struct {
	t       *testing.T
	elapsed atomic.Int64 // since boot
	step    atomic.Int64 // of the wall clock
	server  atomic.Int64 // what the server's clock is ahead by
	asked   chan struct{}
	*clock.Clock
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, asked: make(chan struct{}, 100)}
	passed := func() time.Duration { return time.Duration(m.elapsed.Load()) }
	m.Clock = clock.New(clock.Config{
		Wall:    func() time.Time { return start.Add(passed() + time.Duration(m.step.Load())) },
		Elapsed: passed,
		Server: func(context.Context) (time.Time, error) {
			now := start.Add(passed() + time.Duration(m.server.Load()))
			m.asked <- struct{}{}
			return now, nil
		},
	})
	return m
}

// run runs the clock until the test has ended, and waits for the first comparison.
func (m *machine) run() *machine {
	m.t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(m.t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx)
	}()
	m.t.Cleanup(func() {
		cancel()
		<-ended
	})
	testkit.WaitFor(m.t, ctx, "a comparison", func() bool { return m.Check() == nil })
	return m
}

func (m *machine) skew() time.Duration {
	m.t.Helper()
	var skew *clock.SkewError
	if err := m.Check(); err != nil && !errors.As(err, &skew) {
		m.t.Fatal(err)
	}
	if skew == nil {
		return 0
	}
	return skew.Ahead
}

// Before the first comparison, the clock must not be used for commits.
func TestNotCompared(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	var skew *clock.SkewError
	if err := m.Check(); !errors.As(err, &skew) || skew.Ahead != 0 {
		t.Errorf("before the first comparison: %v", err)
	}
}

func TestAhead(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if _, ok := m.Ahead(); ok {
		t.Error("known before the first comparison")
	}
	m.run()
	m.step.Store(int64(-3 * time.Second))
	if ahead, ok := m.Ahead(); !ok || ahead != -3*time.Second {
		t.Errorf("%v, %t", ahead, ok)
	}
}

// A step of the wall clock is noticed without a question to the server, and until
// it is undone the time is the server's.
func TestStep(t *testing.T) {
	t.Parallel()
	m := newMachine(t).run()
	const day = 24 * time.Hour
	for _, step := range []time.Duration{day, -day, clock.DefaultLimit + time.Second, -clock.DefaultLimit - time.Second} {
		m.step.Store(int64(step))
		if got := m.skew(); got != step {
			t.Errorf("a step of %v is seen as %v", step, got)
		}
		m.elapsed.Add(int64(time.Minute))
		if want := start.Add(time.Duration(m.elapsed.Load())); !m.Now().Equal(want) {
			t.Errorf("after a step of %v it is %v, want %v", step, m.Now(), want)
		}
	}
	for _, step := range []time.Duration{0, clock.DefaultLimit, -clock.DefaultLimit} {
		m.step.Store(int64(step))
		if err := m.Check(); err != nil {
			t.Errorf("a step of %v: %v", step, err)
		}
	}
}

// If the clocks of both machines are set at the same time, the next comparison detects
// it.
func TestBothAreSet(t *testing.T) {
	t.Parallel()
	m := newMachine(t).run()
	const hour = int64(time.Hour)
	m.step.Store(hour)
	m.server.Store(hour)
	testkit.WaitFor(t, testkit.Context(t), "the clock to be good again", func() bool { return m.Check() == nil })
}

// A server whose clock is set makes the difference known, too.
func TestServerIsSet(t *testing.T) {
	t.Parallel()
	m := newMachine(t).run()
	m.server.Store(int64(time.Hour))
	testkit.WaitFor(t, testkit.Context(t), "the difference", func() bool {
		m.Compare()
		return m.skew() == -time.Hour
	})
}

// The time of a realm does not decrease and does not stand still behind a commit
// that is later than the clock: it goes on at half the speed until the clock has
// caught up.
func TestRealm(t *testing.T) {
	t.Parallel()
	m := newMachine(t).run()
	r := m.NewRealm()
	is := func(after time.Duration) {
		t.Helper()
		if got := r.Now().Sub(start); got != after {
			t.Fatalf("the time is %v after the start, want %v", got, after)
		}
	}
	is(0)
	m.elapsed.Store(int64(time.Minute))
	is(time.Minute)
	r.NotBefore(lifecycle.TimeOf(start.Add(time.Hour)))
	is(time.Hour)
	for range 1000 { // however often it is asked for
		m.elapsed.Add(int64(time.Microsecond))
		r.Now()
	}
	is(time.Hour + 500*time.Microsecond)
	r.NotBefore(lifecycle.TimeOf(start.Add(time.Minute)))
	m.elapsed.Store(int64(61 * time.Minute))
	is(90 * time.Minute)
	m.elapsed.Store(int64(119 * time.Minute))
	is(119 * time.Minute)
	m.elapsed.Store(int64(200 * time.Minute))
	is(200 * time.Minute)
	m.step.Store(-int64(5 * time.Second)) // within the limit
	is(200 * time.Minute)
	m.elapsed.Add(int64(2 * time.Second))
	is(200*time.Minute + time.Second)
}
