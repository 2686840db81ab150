package graph_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/past"
)

// gated is a store from which snapshots are read only when the gate is open.
type gated struct {
	archivetest.Hooked
	gate  chan struct{}
	opens atomic.Int64 // of snapshots
}

func newGated(store archive.Store) *gated {
	g := &gated{gate: make(chan struct{})}
	g.Store, g.Before = store, func(ctx context.Context, c archivetest.Call) error {
		if !c.Of(archivetest.Open, archive.Snapshot) || c.Offset != 0 {
			return nil
		}
		g.opens.Add(1)
		select {
		case <-g.gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g
}

// look reads from the state at a revision.
func look(ctx context.Context, c *client.Client, revision uint64) error {
	earlier, err := c.At(ctx, client.Moment{Revision: revision})
	if err == nil {
		_, err = earlier.Kinds(ctx)
	}
	return err
}

// past runs a graph service with limits, and a reader of the past.
func (a *archived) past(store archive.Store, l past.Limits, opts ...client.Option) (*service, *client.Client) {
	a.Helper()
	s := a.serve(a.dir, func(c *graph.Config) { c.Archive, c.Past = store, l }).writing()
	return s, client.New(a.Conn(bus.RoleReader), append([]client.Option{client.WithActor(bus.RoleReader)}, opts...)...)
}

// cached lists the states of the past on disk.
func (a *archived) cached() []string {
	a.Helper()
	found, err := filepath.Glob(filepath.Join(a.dir, ".history", "*"))
	must.Succeed(a, err)
	return found
}

// revisions creates objects one by one, and returns the revisions at which they were created.
func (a *archived) revisions(names ...string) (list []uint64) {
	a.Helper()
	c := a.application()
	for _, name := range names {
		create(a.Ctx, a, c, name)
		list = append(list, c.Revision())
	}
	return list
}

// replied repeats a read until it has a reply: a client with a retry timeout may have none on a busy machine.
func replied(ctx context.Context, read func() error) error {
	for {
		if err := read(); !errors.Is(err, client.ErrTimeout) || ctx.Err() != nil {
			return err
		}
	}
}

// A state is built once, however often and by whichever request it is wanted; a request that ends
// does not end it; what goes beyond the limits is refused; and the realm goes on.
func TestPastIsBuiltOnce(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a")
	a.segments()
	a.snapshot()
	store := newGated(a.store)
	s, reader := a.past(store, past.Limits{Waiting: 1}, client.WithRetryTimeout(3*time.Second))
	at := a.revisions("b", "c", "d", "e")
	list := func(revision uint64) (string, error) {
		var names []string
		err := replied(a.Ctx, func() error {
			earlier, err := reader.At(a.Ctx, client.Moment{Revision: revision})
			if err != nil {
				return err
			}
			p, err := earlier.Resource(configMaps, "a").ListPage(a.Ctx)
			if err != nil {
				return err
			}
			for _, o := range p.Objects {
				names = append(names, o.GetMetadata().GetName())
			}
			return nil
		})
		return strings.Join(names, " "), err
	}
	var wg sync.WaitGroup
	for range 3 { // the same revision
		wg.Go(func() {
			if _, err := list(at[0]); !client.IsBuilding(err) || !errors.Is(err, client.ErrServiceUnavailable) {
				t.Errorf("the first state: %v", err)
			}
		})
	}
	a.WaitFor("the state to be built", func() bool { return store.opens.Load() == 1 })
	var waits, refused atomic.Int64
	for _, revision := range at[1:3] { // one of them waits for its place
		wg.Go(func() {
			switch _, err := list(revision); {
			case client.IsBuilding(err):
				waits.Add(1)
			case errors.Is(err, client.ErrTooManyRequests) && strings.Contains(err.Error(), "2 states of the past are being built or wait for that"):
				refused.Add(1)
			default:
				t.Errorf("revision %d: %v", revision, err)
			}
		})
	}
	if got, err := list(at[3]); err != nil || got != "a b c d e" { // the present
		t.Errorf("the present revision: %s, %v", got, err)
	}
	wg.Wait()
	if waits.Load() != 1 || refused.Load() != 1 {
		t.Errorf("of two more states %d waited and %d were refused, want one of each", waits.Load(), refused.Load())
	}
	a.revisions("f") // the realm goes on
	close(store.gate)
	for i, want := range []string{"a b", "a b c", "a b c d"} {
		a.WaitFor("state "+fmt.Sprint(i), func() bool {
			got, err := list(at[i])
			if err == nil && got != want {
				t.Fatalf("at revision %d there are %s, want %s", at[i], got, want)
			}
			return err == nil
		})
	}
	if n := store.opens.Load(); n != 1 {
		t.Errorf("the snapshot was read %d times: each state is built once, and the later ones from the first", n)
	}
	s.Stop()
	if left := a.cached(); len(left) > 0 {
		t.Errorf("left on disk: %v", left)
	}
}

// One actor has at most two states built at the same time: another one still gets a place.
func TestPastOfOneActor(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a")
	a.segments()
	a.snapshot()
	store := newGated(a.store)
	s, one := a.past(store, past.Limits{}, client.WithRetryTimeout(3*time.Second))
	other := a.as(bus.RoleOperator, client.WithRetryTimeout(3*time.Second))
	at := a.revisions("b", "c", "d", "e", "f")
	read := func(c *client.Client, revision uint64) error {
		return replied(a.Ctx, func() error { return look(a.Ctx, c, revision) })
	}
	var wg sync.WaitGroup
	for _, revision := range at[:2] {
		wg.Go(func() {
			if err := read(one, revision); !client.IsBuilding(err) {
				t.Errorf("revision %d: %v", revision, err)
			}
		})
	}
	wg.Wait()
	wg.Go(func() {
		if err := read(one, at[2]); !errors.Is(err, client.ErrTooManyRequests) || !strings.Contains(err.Error(), "2 states of the past are being built for reader or wait for that, the most for one actor") {
			t.Errorf("a third state: %v", err)
		}
	})
	wg.Go(func() {
		if err := read(other, at[3]); !client.IsBuilding(err) {
			t.Errorf("another actor: %v", err)
		}
	})
	wg.Wait()
	close(store.gate)
	s.Stop()
}

// A service stops at once while a state is being built.
func TestStopWhileThePastIsBuilt(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a")
	a.segments()
	a.snapshot()
	store := newGated(a.store)
	s, reader := a.past(store, past.Limits{})
	at := a.revisions("b", "c")
	earlier, err := reader.At(a.Ctx, client.Moment{Revision: at[0]})
	must.Succeed(t, err)
	ended := make(chan struct{})
	reading, stop := context.WithCancel(a.Ctx)
	defer stop()
	go func() {
		defer close(ended)
		_, _ = earlier.Kinds(reading)
	}()
	a.WaitFor("the state to be built", func() bool { return store.opens.Load() == 1 })
	s.Stop()
	stop()
	testkit.Receive(t, a.Ctx, "the read's end", ended)
	if left := a.cached(); len(left) > 0 {
		t.Errorf("left on disk: %v", left)
	}
}

// The cache has at most as many states as its limit says, and no state that is larger than it.
func TestPastIsBounded(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	s, reader := a.past(nil, past.Limits{States: 2})
	at := a.revisions("b", "c", "d", "e", "f")
	read := func(revision uint64) error {
		return look(a.Ctx, reader, revision)
	}
	for _, i := range []int{0, 1, 2, 1, 0} {
		must.Succeed(t, read(at[i]))
		a.WaitFor("the cache to have two states at most", func() bool { return len(a.cached()) <= 2 })
	}
	s.Stop()

	s, _ = a.past(nil, past.Limits{Bytes: 1 << 10})
	if err := read(at[0]); !errors.Is(err, client.ErrRequestEntityTooLarge) || !strings.Contains(err.Error(), "has more than 1024 bytes, the limit of the cache for states of the past; raise it with --history-cache") {
		t.Errorf("a state that is too large: %v", err)
	}
	a.WaitFor("nothing to be left", func() bool { return len(a.cached()) == 0 })
	a.revisions("g")
	s.Stop()

	s, _ = a.past(nil, past.Limits{Free: 1 << 60})
	limited := client.New(reader.Conn(), client.WithActor(bus.RoleReader), client.WithRetryTimeout(500*time.Millisecond))
	err := replied(a.Ctx, func() error { return look(a.Ctx, limited, at[0]) })
	if !errors.Is(err, client.ErrTooManyRequests) || !strings.Contains(err.Error(), "bytes free, less than 1152921504606846976: make room") {
		t.Errorf("a full disk: %v", err)
	}
	s.Stop()
}

// What neither the log nor the archive covers is refused, and the oldest revision that can be shown is
// named; and is shown.
func TestOldestPast(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a", "b", "c", "d", "e", "f")
	a.segments()
	a.snapshot()
	oldest := checkpoint(t, a.dir).GetRevision()
	a.creates("g", "h", "i", "j")
	a.segments()
	a.truncate(3)
	s, reader := a.past(a.store, past.Limits{})
	a.revisions("k")
	list := func(revision uint64) (string, error) {
		earlier, err := reader.At(a.Ctx, client.Moment{Revision: revision})
		if err != nil {
			return "", err
		}
		return identitiesOf(a.Ctx, t, earlier), nil
	}
	if got, err := list(oldest - 2); err != nil || !strings.Contains(got, "d:") || strings.Contains(got, "e:") {
		t.Errorf("with all segments, revision %d has %s, %v", oldest-2, got, err)
	}
	s.Stop()
	// Prune what precedes the snapshot.
	for _, name := range a.entries(archive.Segment) {
		if n, _ := archive.ParseName(name); n.Last <= checkpoint(t, a.dir).GetSequence()-6 {
			must.Succeed(t, os.Remove(filepath.Join(a.root, filepath.FromSlash(name))))
		}
	}
	s, _ = a.past(a.store, past.Limits{})
	a.revisions("l")
	want := fmt.Sprintf("the oldest revision that can be shown is %d", oldest)
	if _, err := list(oldest - 1); !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), want) {
		t.Errorf("a revision that was pruned: %v, want %q", err, want)
	}
	if _, err := reader.At(a.Ctx, client.Moment{Time: time.Now().Add(-time.Hour)}); !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), want) {
		t.Errorf("a time that was pruned: %v, want %q", err, want)
	}
	for _, revision := range []uint64{oldest, oldest + 1} {
		if got, err := list(revision); err != nil || !strings.Contains(got, "f:") {
			t.Errorf("revision %d has %s, %v", revision, got, err)
		}
	}
	s.Stop()
	s, _ = a.past(a.store, past.Limits{})
	earlier, err := reader.At(a.Ctx, client.Moment{Revision: oldest})
	must.Succeed(t, err)
	changes := func() error { // also from a revision, which other clients follow into the present
		for _, err := range earlier.Resource(configMaps, "a").Watch(a.Ctx, client.FromRevision(oldest)) {
			return err
		}
		return nil
	}
	for what, do := range map[string]func() error{
		"watch":  changes,
		"create": func() error { _, err := earlier.Resource(configMaps, "a").Create(a.Ctx, configMap("past")); return err },
		"run a finalizer": func() error {
			return earlier.RunFinalizer(a.Ctx, bus.ExampleFinalizer, func(context.Context, *client.Call) error { return nil })
		},
	} {
		if err := do(); !errors.Is(err, client.ErrMethodNotAllowed) {
			t.Errorf("%s in the past: %v", what, err)
		}
	}
	s.Stop()
	// A damaged record of the oldest snapshot makes no later revision unreadable.
	_, newest, _, err := archive.NewestVerified(a.Ctx, a.store, [16]byte(checkpoint(t, a.dir).GetRealmId()))
	must.Succeed(t, err)
	a.segments()
	a.snapshot()
	later := checkpoint(t, a.dir).GetRevision()
	a.replace(archive.VerifiedName([16]byte(checkpoint(t, a.dir).GetRealmId()), newest.Sequence).String(), []byte("damaged"))
	s, _ = a.past(a.store, past.Limits{})
	a.revisions("m", "n")
	if got, err := list(later); err != nil || !strings.Contains(got, "l:") || strings.Contains(got, "m:") {
		t.Errorf("revision %d has %s, %v", later, got, err)
	}
	if _, err := list(oldest); !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), fmt.Sprint("can be shown is ", later)) {
		t.Errorf("behind a damaged record: %v, want revision %d as the oldest", err, later)
	}
	s.Stop()
}

// A snapshot that is larger than the cache is not read. A state that is too large is built once,
// also if the request that began to build it has ended before.
func TestTooLargePast(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a")
	a.segments()
	a.snapshot()
	size := int64(0)
	for e, err := range a.store.List(a.Ctx, "") {
		must.Succeed(t, err)
		if n, _ := archive.ParseName(e.Name); n.Kind == archive.Snapshot {
			size = e.Size
		}
	}
	store := newGated(a.store)
	read := func(reader *client.Client, revision uint64) error {
		return replied(a.Ctx, func() error { return look(a.Ctx, reader, revision) })
	}
	s, reader := a.past(store, past.Limits{Bytes: size - 1})
	at := a.revisions("b", "c")
	if err := read(reader, at[0]); !errors.Is(err, client.ErrRequestEntityTooLarge) || !strings.Contains(err.Error(), "--history-cache") {
		t.Errorf("a snapshot that is too large: %v", err)
	}
	if n := store.opens.Load(); n != 0 {
		t.Errorf("a snapshot that is larger than the cache was read %d times", n)
	}
	s.Stop()

	s, reader = a.past(store, past.Limits{Bytes: size}, client.WithRetryTimeout(3*time.Second))
	a.WaitFor("a reply that the state is being built", func() bool { return client.IsBuilding(read(reader, at[0])) })
	close(store.gate)
	a.WaitFor("nothing to be left", func() bool { return len(a.cached()) == 0 })
	for range 2 {
		err := read(reader, at[0])
		for client.IsBuilding(err) {
			err = read(reader, at[0])
		}
		if !errors.Is(err, client.ErrRequestEntityTooLarge) {
			t.Errorf("a state that is too large: %v", err)
		}
	}
	if n := store.opens.Load(); n != 1 {
		t.Errorf("the snapshot was read %d times", n)
	}
	s.Stop()
}
