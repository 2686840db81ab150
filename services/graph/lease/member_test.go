package lease_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const realm = bus.DefaultRealm

func config(id string, ttl time.Duration) lease.Config {
	return lease.Config{ID: id, Name: "process of " + id, TTL: ttl, Replicas: 1}
}

// process is a member that runs until stop is called, or the test has ended.
type process struct {
	*lease.Member
	t    *testing.T
	stop func() // ends Run, which deletes the member's key
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
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = l.Release(context.WithoutCancel(p.t.Context())) })
	return l
}

// acquiring acquires alongside, and tells when it has.
func (p *process) acquiring() <-chan *lease.Lease {
	p.t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(p.t))
	acquired, ended := make(chan *lease.Lease, 1), make(chan struct{})
	go func() {
		defer close(ended)
		l, err := p.Acquire(ctx, realm, lease.Options{})
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

// never fails the test if something happens within the time in which a member renews its key
// several times.
func never(t *testing.T, js jetstream.JetStream, what string, happened func() bool) {
	t.Helper()
	ctx := testkit.Context(t)
	bucket, err := js.KeyValue(ctx, bus.LeaseBucket)
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := bucket.WatchAll(ctx, jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Stop() }()
	for range 20 {
		testkit.Receive(t, ctx, "a renewal", watcher.Updates())
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
	a := run(t, js, config("a", time.Second))
	first := a.acquire()
	second := a.acquiring()
	never(t, js, "the lease was acquired twice", func() bool { return len(second) > 0 })
	if !first.Holds() {
		t.Error("the first lease is lost")
	}
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if l := testkit.Receive(t, ctx, "the second lease", second); !l.Holds() {
		t.Error("the second lease is not held")
	}
}
