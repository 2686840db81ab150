package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

// A released lease is free at once, and so are those of a member that has ended.
func TestRelease(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	a := run(t, js, config("a", steady))
	first := a.acquire()
	if !first.Holds() {
		t.Fatal("an acquired lease does not hold")
	}
	must.Succeed(t, first.Release(testkit.Context(t)))
	if first.Holds() {
		t.Fatal("a released lease holds")
	}
	second := a.acquire()
	a.stop()
	if second.Holds() {
		t.Fatal("the lease of a member that has ended holds")
	}
	run(t, js, config("b", steady)).acquire()
}

// A lease whose member is renewed is not taken by another, and that one gets it when it is
// released, although it has no fewer realms.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	var c timer
	first := run(t, js, c.config("a")).acquire()
	b := run(t, js, c.config("b"))
	second := b.acquiring()
	c.never(t, js, "two hold the lease", func() bool { return len(second) > 0 || !first.Holds() }, b, "a", "b")
	must.Succeed(t, first.Release(testkit.Context(t)))
	l := testkit.Receive(t, testkit.Context(t), "the lease", second)
	if !l.Holds() || first.Holds() {
		t.Fatalf("after the release: the first holds: %t, the second: %t", first.Holds(), l.Holds())
	}
}

// A holder that is cut off loses its lease by its own clock before another process can
// acquire it.
func TestSilence(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	const ttl = 500 * time.Millisecond
	nc := testkit.Conn(t, server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	must.Succeed(t, err)
	first := run(t, js, config("a", ttl)).acquire()
	second := run(t, testkit.JetStream(t, server, bus.RoleGraph), config("b", ttl)).acquiring()
	nc.Close()
	ctx := testkit.Context(t)
	testkit.Receive(t, ctx, "the lease", second)
	if first.Holds() {
		t.Error("the second has the lease, and the first relies on it")
	}
	testkit.Receive(t, ctx, "the first to notice", first.Lost())
}

// A process on a copy of another's directory is no member while that process relies on its
// leases.
func TestCopiedDirectory(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	var c timer
	original := run(t, js, c.config("a"))
	first := original.acquire()
	copied := run(t, js, c.config("a"))
	second := copied.acquiring()
	c.never(t, js, "two processes hold the lease", func() bool { return len(second) > 0 || !first.Holds() }, copied, "a")
	must.Succeed(t, first.Release(testkit.Context(t)))
	original.stop()
	testkit.Receive(t, testkit.Context(t), "the lease", second)
}

// A process waits until the one before it, which was killed, cannot rely on its lease any
// more, by its own clock and whatever the server's says: the key is still there.
func TestKilled(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"with the same directory": "a", "with another": "b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed(t, id)
		})
	}
}

func killed(t *testing.T, id string) {
	t.Helper()
	server := testkit.NATS(t)
	nc := testkit.Conn(t, server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	must.Succeed(t, err)
	const ttl = steady
	var now, reads atomic.Int64
	now.Store(int64(time.Hour))
	c := config("a", ttl)
	c.Clock = func() time.Duration { return time.Duration(now.Load()) }
	first := run(t, js, c).acquire()
	nc.Close()
	c = config(id, ttl)
	c.Clock = func() time.Duration {
		reads.Add(1)
		return time.Duration(now.Load())
	}
	second := run(t, testkit.JetStream(t, server, bus.RoleGraph), c).acquiring()
	ctx := testkit.Context(t)
	looked := func() {
		t.Helper()
		before := reads.Load()
		testkit.WaitFor(t, ctx, "the second process to look several times", func() bool { return reads.Load() >= before+20 || len(second) > 0 })
	}
	looked()
	now.Add(int64(ttl) * 74 / 100)
	looked()
	if !first.Holds() || len(second) > 0 {
		t.Fatalf("the first process holds the lease: %t; the second has it: %t", first.Holds(), len(second) > 0)
	}
	now.Add(int64(ttl) * 7 / 100)
	testkit.Receive(t, ctx, "the lease", second)
	if first.Holds() {
		t.Error("the second process has the lease, and the first relies on it")
	}
}

// A lease does not outlast a suspension of its holder's machine, during which the
// clock since boot goes on.
func TestSuspended(t *testing.T) {
	t.Parallel()
	nc := testkit.Conn(t, testkit.NATS(t), bus.RoleGraph)
	js, err := jetstream.New(nc)
	must.Succeed(t, err)
	var c timer
	l := run(t, js, c.config("a")).acquire()
	if !l.Holds() {
		t.Fatal("an acquired lease does not hold")
	}
	nc.Close() // so that it is not renewed after the suspension
	c.moved.Store(int64(steady * 3 / 4))
	if l.Holds() {
		t.Error("the lease holds after a suspension")
	}
}

// A member whose key another has deleted loses its leases, and becomes a member again.
func TestLost(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	var c timer
	p := run(t, js, c.config("a"))
	l := p.acquire()
	ctx := testkit.Context(t)
	bucket, err := js.KeyValue(ctx, bus.LeaseBucket)
	must.Succeed(t, err)
	must.Succeed(t, bucket.Delete(ctx, bus.MemberKey("a")))
	c.moved.Store(int64(steady / 5)) // the renewal is due
	testkit.Receive(t, ctx, "the loss", l.Lost())
	if l.Holds() {
		t.Error("a lost lease holds")
	}
	must.Succeed(t, l.Release(ctx))
	if again := p.acquire(); !again.Holds() {
		t.Error("an acquired lease does not hold")
	}
}

// A lease whose claim another process has overwritten is lost, and its release leaves the
// other's.
func TestClaimOverwritten(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	l := run(t, js, config("a", 500*time.Millisecond)).acquire()
	ctx := testkit.Context(t)
	bucket, err := js.KeyValue(ctx, bus.WriterBucket)
	must.Succeed(t, err)
	if _, err := bucket.Put(ctx, realm, []byte(`{"id":"another"}`)); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, ctx, "the loss", l.Lost())
	must.Succeed(t, l.Release(ctx))
	if entry, err := bucket.Get(ctx, realm); err != nil || string(entry.Value()) != `{"id":"another"}` {
		t.Errorf("the release of a lost lease changed the claim: %v, %v", entry, err)
	}
}

// Another process with a shorter TTL waits for as long as the holder relies on its own.
func TestOtherTTL(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	nc := testkit.Conn(t, server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	must.Succeed(t, err)
	first := run(t, js, config("a", 2*time.Second)).acquire()
	second := run(t, testkit.JetStream(t, server, bus.RoleGraph), config("b", 500*time.Millisecond)).acquiring()
	nc.Close()
	testkit.Receive(t, testkit.Context(t), "the lease", second)
	if first.Holds() {
		t.Error("the second has the lease, and the first relies on it")
	}
}

// While the server is unavailable, renewal is retried. The lease is lost when its time is
// over.
func TestServerAway(t *testing.T) {
	t.Parallel()
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir()})
	l := run(t, testkit.JetStream(t, server, bus.RoleGraph), config("a", 500*time.Millisecond)).acquire()
	must.Succeed(t, server.Shutdown())
	ctx := testkit.Context(t)
	testkit.Receive(t, ctx, "the loss", l.Lost())
	if l.Holds() {
		t.Error("a lost lease holds")
	}
	must.Succeed(t, l.Release(ctx))
}

// Acquire ends with its context.
func TestAcquireEnds(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	run(t, js, config("a", time.Minute)).acquire()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run(t, js, config("b", time.Minute)).Acquire(ctx, realm, lease.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A claim of a member that lives, and whose reply was lost, does not keep the realm from
// others for ever.
func TestStrayClaim(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	a := run(t, js, config("a", 500*time.Millisecond))
	l := a.acquire()
	ctx := testkit.Context(t)
	bucket, err := js.KeyValue(ctx, bus.WriterBucket)
	must.Succeed(t, err)
	claim, err := bucket.Get(ctx, realm)
	must.Succeed(t, err)
	must.Succeed(t, l.Release(ctx))
	if _, err := bucket.Put(ctx, realm, claim.Value()); err != nil {
		t.Fatal(err)
	}
	run(t, js, config("b", 500*time.Millisecond)).acquire()
}

// A realm has an archiver next to its writer, which does not count when members share the
// realms.
func TestArchiver(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	var c timer
	a, b := run(t, js, c.config("a")), run(t, js, c.config("b"))
	ctx := testkit.Context(t)
	var held []*lease.Lease
	for i := range 5 {
		l, err := a.Acquire(ctx, fmt.Sprintf("realm-%d", i), lease.Options{Archiver: true})
		must.Succeed(t, err)
		held = append(held, l)
	}
	writer, err := b.Acquire(ctx, "realm-0", lease.Options{})
	must.Succeed(t, err)
	testkit.WaitFor(t, ctx, "the writer to be seen", func() bool { return a.Writers()["realm-0"] == "process of b" && len(a.Writers()) == 1 })
	c.never(t, js, "an archiver is to leave its realm", func() bool {
		for _, l := range append(held, writer) {
			select {
			case <-l.Leave():
				return true
			default:
			}
			if !l.Holds() {
				return true
			}
		}
		return false
	}, nil, "a", "b")
	for _, l := range append(held, writer) {
		if err := l.Release(ctx); err != nil {
			t.Error(err)
		}
	}
}
