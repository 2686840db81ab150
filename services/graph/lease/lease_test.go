package lease_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const realm = bus.DefaultRealm

func config(id string, ttl time.Duration) lease.Config {
	return lease.Config{
		Realm: realm, Holder: lease.Holder{ID: id, Process: rand.Text(), Name: "process of " + id}, TTL: ttl, Replicas: 1,
		Log: slog.New(slog.DiscardHandler),
	}
}

func acquire(t *testing.T, js jetstream.JetStream, c lease.Config) *lease.Lease {
	t.Helper()
	l, err := lease.Acquire(testkit.Context(t), js, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) })
	return l
}

// acquiring acquires alongside, and tells when it has.
func acquiring(t *testing.T, js jetstream.JetStream, c lease.Config) <-chan *lease.Lease {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(t))
	acquired, ended := make(chan *lease.Lease, 1), make(chan struct{})
	go func() {
		defer close(ended)
		l, err := lease.Acquire(ctx, js, c)
		if err != nil {
			return
		}
		acquired <- l
		<-ctx.Done()
		_ = l.Release(context.WithoutCancel(ctx))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return acquired
}

// looks is how often something is looked at that must not happen.
const looks = 20

// never looks for a while whether something happens that must not: as long as
// the holder of a lease takes to renew it several times.
func never(t *testing.T, js jetstream.JetStream, what string, happened func() bool) {
	t.Helper()
	ctx := testkit.Context(t)
	bucket, err := js.KeyValue(ctx, bus.LeaseBucket)
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := bucket.Watch(ctx, bus.LeaseKey(realm), jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Stop() }()
	for range looks {
		testkit.Receive(t, ctx, "a renewal of the lease", watcher.Updates())
		if happened() {
			t.Fatal(what)
		}
	}
}

// A released lease is free at once.
func TestRelease(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	const longer = 10 * testkit.Timeout
	first := acquire(t, js, config("a", longer))
	if !first.Holds() {
		t.Fatal("an acquired lease does not hold")
	}
	if err := first.Release(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if first.Holds() {
		t.Fatal("a released lease holds")
	}
	acquire(t, js, config("b", longer))
}

// A lease that is renewed is not taken by another, and that one gets it when
// it is released.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	const ttl = 500 * time.Millisecond
	first := acquire(t, js, config("a", ttl))
	second := acquiring(t, js, config("b", ttl))
	never(t, js, "two hold the lease", func() bool { return len(second) > 0 || !first.Holds() })
	if err := first.Release(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	l := testkit.Receive(t, testkit.Context(t), "the lease", second)
	if !l.Holds() || first.Holds() {
		t.Fatalf("after the release: the first holds: %t, the second: %t", first.Holds(), l.Holds())
	}
}

// A holder that is cut off knows that it has lost the lease before another can
// have it.
func TestSilence(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	const ttl = 500 * time.Millisecond
	nc := testkit.Conn(t, server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	first := acquire(t, js, config("a", ttl))
	second := acquiring(t, testkit.JetStream(t, server, bus.RoleGraph), config("b", ttl))
	nc.Close()
	ctx := testkit.Context(t)
	testkit.Receive(t, ctx, "the lease", second)
	if first.Holds() {
		t.Error("the second has the lease, and the first relies on it")
	}
	testkit.Receive(t, ctx, "the first to notice", first.Lost())
}

// A process that has lost its lease without an answer, and acquires again, need not
// wait for its own.
func TestOwnLease(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	c := config("a", 10*testkit.Timeout)
	nc := testkit.Conn(t, server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, js, c)
	nc.Close()
	l := acquire(t, testkit.JetStream(t, server, bus.RoleGraph), c)
	if !l.Holds() {
		t.Fatal("an acquired lease does not hold")
	}
}

// A process on a copy of another's directory does not take its lease over while
// that process relies on it.
func TestCopiedDirectory(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	const ttl = 500 * time.Millisecond
	first := acquire(t, js, config("a", ttl))
	second := acquiring(t, js, config("a", ttl))
	never(t, js, "two processes hold the lease", func() bool { return len(second) > 0 || !first.Holds() })
	if err := first.Release(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, testkit.Context(t), "the lease", second)
}

// A process waits until the one before it, which was killed, cannot rely on its
// lease any more, by its own clock and whatever the server's says: the key is still
// there.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	nc := testkit.Conn(t, server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const ttl = testkit.Timeout / 2
	var now, reads atomic.Int64
	now.Store(int64(time.Hour))
	c := config("a", ttl)
	c.Clock = func() time.Duration { return time.Duration(now.Load()) }
	first := acquire(t, js, c)
	nc.Close()
	c = config("a", ttl)
	c.Clock = func() time.Duration {
		reads.Add(1)
		return time.Duration(now.Load())
	}
	second := acquiring(t, testkit.JetStream(t, server, bus.RoleGraph), c)
	ctx := testkit.Context(t)
	looked := func() {
		t.Helper()
		before := reads.Load()
		testkit.WaitFor(t, ctx, "the second process to look twice", func() bool { return reads.Load() >= before+4 || len(second) > 0 })
	}
	looked()
	now.Add(int64(ttl) * 74 / 100)
	looked()
	if !first.Holds() || len(second) > 0 {
		t.Fatalf("the first process holds the lease: %t; the second has it: %t", first.Holds(), len(second) > 0)
	}
	now.Add(int64(ttl) * 6 / 100)
	testkit.Receive(t, ctx, "the lease", second)
	if first.Holds() {
		t.Error("the second process has the lease, and the first relies on it")
	}
}

// A lease does not outlast a suspension of its holder's machine, during which the
// clock since boot goes on.
func TestSuspended(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	const ttl = 10 * testkit.Timeout
	var suspended atomic.Int64
	c := config("a", ttl)
	c.Clock = func() time.Duration { return clock.SinceBoot() + time.Duration(suspended.Load()) }
	l := acquire(t, js, c)
	if !l.Holds() {
		t.Fatal("an acquired lease does not hold")
	}
	suspended.Store(int64(ttl * 3 / 4))
	if l.Holds() {
		t.Error("the lease holds after a suspension")
	}
}

// A lease whose key another has is lost, and its release leaves the other's.
func TestLost(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	l := acquire(t, js, config("a", 500*time.Millisecond))
	ctx := testkit.Context(t)
	bucket, err := js.KeyValue(ctx, bus.LeaseBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(ctx, bus.LeaseKey(realm), []byte(`{"id":"another"}`)); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, ctx, "the loss", l.Lost())
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if l.Holds() {
		t.Error("a lost lease holds")
	}
	entry, err := bucket.Get(ctx, bus.LeaseKey(realm))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // it expired meanwhile
	case err != nil:
		t.Fatal(err)
	case string(entry.Value()) != `{"id":"another"}`:
		t.Errorf("the release of a lost lease changed the key to %s", entry.Value())
	}
}

// A process that is configured with another TTL must not shorten the leases of other
// processes, which rely on theirs.
func TestOtherTTL(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	nc := testkit.Conn(t, server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	first := acquire(t, js, config("a", 4*time.Second))
	second := acquiring(t, testkit.JetStream(t, server, bus.RoleGraph), config("b", 500*time.Millisecond))
	nc.Close()
	testkit.Receive(t, testkit.Context(t), "the lease", second)
	if first.Holds() {
		t.Error("the second has the lease, and the first relies on it")
	}
}

// A lease waits for a server that is away, and is lost when it stays away.
func TestServerAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := testkit.StartNATS(t, natsd.Config{Dir: dir})
	js := testkit.JetStream(t, server, bus.RoleGraph)
	l := acquire(t, js, config("a", 500*time.Millisecond))
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	testkit.Receive(t, ctx, "the loss", l.Lost())
	if l.Holds() {
		t.Error("a lost lease holds")
	}
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
}

// Acquire ends with its context.
func TestAcquireEnds(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	acquire(t, js, config("a", time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lease.Acquire(ctx, js, config("b", time.Minute)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
