package lease_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

// A released lease is free at once, and so are those of a member that has ended.
func TestRelease(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	const longer = 10 * testkit.Timeout
	a := run(t, js, config("a", longer))
	first := a.acquire()
	if !first.Holds() {
		t.Fatal("an acquired lease does not hold")
	}
	if err := first.Release(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if first.Holds() {
		t.Fatal("a released lease holds")
	}
	second := a.acquire()
	a.stop()
	if second.Holds() {
		t.Fatal("the lease of a member that has ended holds")
	}
	run(t, js, config("b", longer)).acquire()
}

// A lease whose member is renewed is not taken by another, and that one gets it when it is
// released, although it has no fewer realms.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	const ttl = 500 * time.Millisecond
	first := run(t, js, config("a", ttl)).acquire()
	second := run(t, js, config("b", ttl)).acquiring()
	never(t, js, "two hold the lease", func() bool { return len(second) > 0 || !first.Holds() })
	if err := first.Release(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	const ttl = 500 * time.Millisecond
	original := run(t, js, config("a", ttl))
	first := original.acquire()
	second := run(t, js, config("a", ttl)).acquiring()
	never(t, js, "two processes hold the lease", func() bool { return len(second) > 0 || !first.Holds() })
	if err := first.Release(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	const ttl = 10 * time.Second
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
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	const ttl = 10 * testkit.Timeout
	var suspended atomic.Int64
	c := config("a", ttl)
	c.Clock = func() time.Duration { return clock.SinceBoot() + time.Duration(suspended.Load()) }
	l := run(t, js, c).acquire()
	if !l.Holds() {
		t.Fatal("an acquired lease does not hold")
	}
	suspended.Store(int64(ttl * 3 / 4))
	if l.Holds() {
		t.Error("the lease holds after a suspension")
	}
}

// A member whose key another has deleted loses its leases, and becomes a member again.
func TestLost(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	p := run(t, js, config("a", 500*time.Millisecond))
	l := p.acquire()
	ctx := testkit.Context(t)
	bucket, err := js.KeyValue(ctx, bus.LeaseBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Delete(ctx, bus.MemberKey("a")); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, ctx, "the loss", l.Lost())
	if l.Holds() {
		t.Error("a lost lease holds")
	}
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(ctx, realm, []byte(`{"id":"another"}`)); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, ctx, "the loss", l.Lost())
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	first := run(t, js, config("a", 4*time.Second)).acquire()
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
	if err != nil {
		t.Fatal(err)
	}
	claim, err := bucket.Get(ctx, realm)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(ctx, realm, claim.Value()); err != nil {
		t.Fatal(err)
	}
	run(t, js, config("b", 500*time.Millisecond)).acquire()
}

// Members share the realms evenly, whether one joins, ends or is cut off: the numbers of any
// two differ by at most one. Each realm has at most one writer at a time, and a single
// key is renewed for all.
func TestShares(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	w := &writers{t: t, ctx: testkit.Context(t), server: server, of: map[string]string{}}
	a := w.join("a")
	w.shares(map[string][]int{"a": {20}})
	w.join("b")
	w.shares(map[string][]int{"a": {10}, "b": {10}})
	c := w.join("c")
	w.shares(map[string][]int{"a": {6, 7}, "b": {6, 7}, "c": {6, 7}})
	a.end()
	w.shares(map[string][]int{"b": {10}, "c": {10}})
	c.cut()
	w.shares(map[string][]int{"b": {20}})
}

// writers are processes that write realms.
type writers struct {
	t      *testing.T
	ctx    context.Context
	server *natsd.Server

	mu sync.Mutex
	of map[string]string // the process that writes a realm
}

// writing is a process that writes those realms whose leases it has.
type writing struct {
	*process
	close func() // the connection
	end   func() // releases all leases, and ends
}

func (p *writing) cut() { p.close() }

func (w *writers) join(id string) *writing {
	w.t.Helper()
	nc := testkit.Conn(w.t, w.server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &writing{process: run(w.t, js, config(id, time.Second)), close: nc.Close}
	ctx, cancel := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { w.write(ctx, p.Member, id, fmt.Sprintf("realm-%d", i)) })
	}
	p.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		p.stop()
	})
	w.t.Cleanup(p.end)
	return p
}

// write writes a realm whenever it has the lease, until ctx ends.
func (w *writers) write(ctx context.Context, m *lease.Member, id, realm string) {
	for ctx.Err() == nil {
		l, err := m.Acquire(ctx, realm, lease.Options{})
		if err != nil {
			return
		}
		w.mu.Lock()
		if other := w.of[realm]; other != "" {
			w.t.Errorf("%s is written by %s and %s", realm, other, id)
		}
		w.of[realm] = id
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-l.Leave():
		case <-l.Lost():
		}
		w.mu.Lock()
		delete(w.of, realm)
		w.mu.Unlock()
		_ = l.Release(context.WithoutCancel(ctx))
	}
}

// shares waits until each process has one of the numbers of realms.
func (w *writers) shares(want map[string][]int) {
	w.t.Helper()
	testkit.WaitFor(w.t, w.ctx, fmt.Sprintf("the shares to be %v", want), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		has := map[string]int{}
		for _, id := range w.of {
			has[id]++
		}
		sum := 0
		for id, n := range has {
			if !slices.Contains(want[id], n) {
				return false
			}
			sum += n
		}
		return sum == 20 && len(has) == len(want)
	})
}

// A realm has an archiver next to its writer, which does not count when members share the
// realms.
func TestArchiver(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	a, b := run(t, js, config("a", time.Second)), run(t, js, config("b", time.Second))
	ctx := testkit.Context(t)
	var held []*lease.Lease
	for i := range 5 {
		l, err := a.Acquire(ctx, fmt.Sprintf("realm-%d", i), lease.Options{Archiver: true})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
	}
	writer, err := b.Acquire(ctx, "realm-0", lease.Options{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, ctx, "the writer to be seen", func() bool { return a.Writers()["realm-0"] == "process of b" && len(a.Writers()) == 1 })
	never(t, js, "an archiver is to leave its realm", func() bool {
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
	})
	for _, l := range append(held, writer) {
		if err := l.Release(ctx); err != nil {
			t.Error(err)
		}
	}
}

// A member that is not ready gets no realms from others.
func TestNotReady(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	w := &writers{t: t, ctx: testkit.Context(t), server: server, of: map[string]string{}}
	w.join("a")
	w.shares(map[string][]int{"a": {20}})
	var ready atomic.Bool
	js := testkit.JetStream(t, server, bus.RoleGraph)
	c := config("b", time.Second)
	c.Ready = ready.Load
	run(t, js, c)
	never(t, js, "a realm was given to a member that is not ready", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.of) != 20
	})
	if names := slices.Sorted(maps.Keys(w.of)); strings.Join(names[:2], " ") != "realm-0 realm-1" {
		t.Errorf("the realms are %v", names)
	}
}
