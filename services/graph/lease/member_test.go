package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

func TestMain(m *testing.M) {
	testkit.ManyAtOnce()
	testkit.Main(m)
}

const realm = bus.DefaultRealm

func config(id string, ttl time.Duration) lease.Config {
	c := lease.Config{ID: id, Name: "process of " + id, TTL: ttl, Replicas: 1}
	c.EndsWithin(testkit.Timeout)
	if ttl == steady {
		c.LooksEvery(10 * time.Millisecond) // and not every second
	}
	return c
}

// steady is a TTL in which a test ends, however slow the machine is.
const steady = 10 * testkit.Timeout

// timer is a clock since boot that a test can move forward.
type timer struct{ moved atomic.Int64 }

func (c *timer) now() time.Duration { return clock.SinceBoot() + time.Duration(c.moved.Load()) }

// config is the configuration of a member that loses its leases only if a test moves the clock.
func (c *timer) config(id string) lease.Config {
	m := config(id, steady)
	m.Clock = c.now
	return m
}

// process is a member that runs until stop is called, or the test has ended.
type process struct {
	*lease.Member
	t    *testing.T
	stop func() // ends Run, which deletes the member's key

	attempts atomic.Int64 // of acquiring
}

func run(t *testing.T, js jetstream.JetStream, c lease.Config) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{Member: lease.New(js, c), t: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(p.stop)
	return p
}

func (p *process) acquire() *lease.Lease {
	p.t.Helper()
	l, err := p.Acquire(testkit.Context(p.t), realm, lease.Options{})
	must.Succeed(p.t, err)
	p.t.Cleanup(func() { _ = l.Release(context.WithoutCancel(p.t.Context())) })
	return l
}

// acquiring acquires alongside, and reports when it has.
func (p *process) acquiring() <-chan *lease.Lease {
	p.t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(p.t))
	acquired, ended := make(chan *lease.Lease, 1), make(chan struct{})
	go func() {
		defer close(ended)
		l, err := p.Acquire(ctx, realm, lease.Options{Attempted: func(error) { p.attempts.Add(1) }})
		if err != nil {
			return
		}
		acquired <- l
		<-ctx.Done()
		_ = l.Release(context.WithoutCancel(ctx))
	}()
	p.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return acquired
}

// never fails the test if something happens within more than a TTL, while members renew their keys
// six times. Before each renewal is due, the acquirer, unless it is nil, tries to take the lease.
func (c *timer) never(t *testing.T, js jetstream.JetStream, what string, happened func() bool, acquirer *process, members ...string) {
	t.Helper()
	ctx := testkit.Context(t)
	bucket, err := js.KeyValue(ctx, bus.LeaseBucket)
	must.Succeed(t, err)
	var watchers []jetstream.KeyWatcher
	for _, id := range members {
		watcher, err := bucket.Watch(ctx, bus.MemberKey(id), jetstream.UpdatesOnly())
		must.Succeed(t, err)
		defer func() { _ = watcher.Stop() }()
		watchers = append(watchers, watcher)
	}
	tried := func() {
		if acquirer != nil {
			before := acquirer.attempts.Load() // the next may have begun already
			testkit.WaitFor(t, ctx, "attempts to take the lease", func() bool { return acquirer.attempts.Load() >= before+2 || happened() })
		}
	}
	for range 6 {
		tried() // and has seen the last renewal
		c.moved.Add(int64(steady * 19 / 100))
		tried()
		c.moved.Add(int64(steady / 100))
		for _, watcher := range watchers {
			testkit.Receive(t, ctx, "a renewal", watcher.Updates())
		}
		if happened() {
			t.Fatal(what)
		}
	}
}

// A process that has a lease does not get it twice: the first would not see that the second
// was released.
func TestAcquireTwice(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	var c timer
	a := run(t, js, c.config("a"))
	first := a.acquire()
	second := a.acquiring()
	c.never(t, js, "the lease was acquired twice", func() bool { return len(second) > 0 }, a, "a")
	if !first.Holds() {
		t.Error("the first lease is lost")
	}
	must.Succeed(t, first.Release(ctx))
	if l := testkit.Receive(t, ctx, "the second lease", second); !l.Holds() {
		t.Error("the second lease is not held")
	}
}

// A call waits for another one that opens a bucket, which may wait for a connection that
// cannot write, only until its context ends.
func TestOpeningEnds(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	m := lease.New(testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph), config("a", steady))
	m.Occupy()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	result := make(chan error, 1)
	go func() { result <- m.Open(ended) }()
	if err := testkit.Receive(t, ctx, "the end of the call", result); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
