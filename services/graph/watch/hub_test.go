package watch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// hubRealm is a realm whose changes go to a hub.
type hubRealm struct {
	*statetest.Realm
	t   *testing.T
	ctx context.Context
	hub *watch.Hub
}

func start(t *testing.T) *hubRealm {
	t.Helper()
	return startWith(t, watch.Limits{})
}

func startWith(t *testing.T, limits watch.Limits) *hubRealm {
	t.Helper()
	b := &hubRealm{t: t, ctx: testkit.Context(t), Realm: statetest.New(t)}
	b.hub = watch.NewHub(b.State.Checkpoint().GetRevision(), time.Now, limits)
	b.Begin = b.hub.Begin
	b.Applied = func(revision uint64, changes []state.Change, _ []state.WorkChange) { b.hub.Commit(revision, changes) }
	return b
}

// watcher is a watch of pods. It receives batches.
type watcher struct {
	b       *hubRealm
	batches chan *coppicev1.WatchBatch
	ended   chan error
	last    uint64
}

func (b *hubRealm) watch(change func(*watch.Target)) *watcher {
	b.t.Helper()
	w := &watcher{b: b, batches: make(chan *coppicev1.WatchBatch, 100), ended: make(chan error, 1)}
	target := watch.Target{
		Resource: "pods", Heartbeat: time.Hour, MaxBytes: 1 << 20,
	}
	ctx, cancel := context.WithCancel(b.ctx)
	target.Send = func(batch *coppicev1.WatchBatch) error {
		select {
		case w.batches <- batch:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if change != nil {
		change(&target)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		leave, refusal := b.hub.Admit(target.Actor)
		if refusal != nil {
			w.ended <- refusal
			return
		}
		err := b.hub.Serve(ctx, b.State, target)
		// As a client does: on a busy machine, a revision or a turn may come too late.
		for ctx.Err() == nil && (errors.Is(err, api.ErrServiceUnavailable) || errors.Is(err, api.ErrTooManyRequests)) {
			err = b.hub.Serve(ctx, b.State, target)
		}
		leave()
		w.ended <- err
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// next is the next batch, as text: what happened, and how far it goes. Each
// must go on from the one before.
func (w *watcher) next() string {
	w.b.t.Helper()
	batch := testkit.Receive(w.b.t, w.b.ctx, "a batch", w.batches)
	if batch.GetPreviousRevision() != w.last {
		w.b.t.Errorf("a batch goes on from %d, and the last one went to %d", batch.GetPreviousRevision(), w.last)
	}
	w.last = batch.GetRevision()
	var parts []string
	for _, e := range batch.GetEvents() {
		m := e.GetObject().GetMetadata()
		parts = append(parts, fmt.Sprintf("%s %s@%d", strings.TrimPrefix(e.GetType().String(), "TYPE_"), m.GetName(), m.GetResourceVersion()))
	}
	return fmt.Sprintf("%s to %d", strings.Join(parts, ", "), batch.GetRevision())
}

func (w *watcher) expect(want ...string) {
	w.b.t.Helper()
	for _, s := range want {
		if got := w.next(); got != s {
			w.b.t.Errorf("received %q, want %q", got, s)
		}
	}
}

func (w *watcher) expired() {
	w.b.t.Helper()
	err := testkit.Receive(w.b.t, w.b.ctx, "the end of the watch", w.ended)
	var e *lifecycle.Error
	if !errors.As(err, &e) || e.Reason != api.ErrExpired || !strings.Contains(e.Message, "list again") {
		w.b.t.Errorf("the watch ended with %v, want that it is expired", err)
	}
}

func labelled(value string) *coppicev1.ObjectMeta {
	return &coppicev1.ObjectMeta{Labels: map[string]string{"app": value}}
}

// Without a revision a watch begins with the existing objects, and continues with changes,
// in order.
func TestStateThenChanges(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.Create("pods/a", nil)
	b.Create("services/other", nil)
	w := b.watch(nil)
	w.expect("ADDED a@101 to 102")
	b.Create("pods/b", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	b.Create("services/more", nil)
	b.Delete("pods/a", lifecycle.Background)
	b.Delete("pods/b", lifecycle.Background)
	b.RemoveFinalizer("pods/b", "example.com/x")
	var all []string
	for len(all) < 4 {
		text, _, _ := strings.Cut(w.next(), " to ")
		all = append(all, strings.Split(text, ", ")...)
	}
	if got, want := strings.Join(all, ", "), "ADDED b@103, DELETED a@105, MODIFIED b@106, DELETED b@107"; got != want {
		t.Errorf("received %s, want %s", got, want)
	}
}

// One commit is one batch, with all that it did.
func TestCommitIsABatch(t *testing.T) {
	t.Parallel()
	b := start(t)
	w := b.watch(nil)
	w.expect(" to 100")
	b.Must(b.Creation("pods/a", nil), b.Creation("services/s", nil), b.Creation("pods/b", nil))
	w.expect("ADDED a@101, ADDED b@103 to 103")
}

// A watch goes on from a revision: what it has missed comes first.
func TestResume(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.watch(nil).expect(" to 100") // has the hub record pods
	for _, name := range []string{"pods/a", "pods/b", "pods/c"} {
		b.Create(name, nil)
	}
	resume := func(from uint64) *watcher {
		w := b.watch(func(t *watch.Target) { t.From = from })
		w.last = from
		return w
	}
	resume(101).expect("ADDED b@102, ADDED c@103 to 103")
	resume(100).expect("ADDED a@101, ADDED b@102, ADDED c@103 to 103")
	now := resume(103)
	b.Create("pods/d", nil)
	now.expect("ADDED d@104 to 104")
}

// A watch from a revision that the hub has not reached yet begins behind it.
func TestBeginsAhead(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.watch(nil).expect(" to 100") // has the hub record pods
	b.Create("pods/a", nil)
	from := b.State.Checkpoint().GetRevision() + 1
	var watchers []*watcher
	for range 20 {
		w := b.watch(func(t *watch.Target) { t.From = from })
		w.last = from
		watchers = append(watchers, w)
	}
	b.Create("pods/b", nil)
	b.Create("pods/c", nil)
	for _, w := range watchers {
		w.expect(fmt.Sprintf("ADDED c@%d to %d", from+1, from+1))
	}
}

// A watch from a revision that is not reached in time fails with a retryable error.
func TestNeverReached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		err := watch.NewHub(7, time.Now, watch.Limits{}).Serve(t.Context(), nil, watch.Target{Resource: "pods", From: 8, Heartbeat: time.Hour})
		if !errors.Is(err, api.ErrServiceUnavailable) || !strings.Contains(err.Error(), "has not reached revision 8") {
			t.Errorf("got %v", err)
		}
	})
}

// Changes from before the first watch are not kept. The client gets an error, lists, and
// watches from the list's revision, which succeeds.
func TestExpired(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.Create("pods/a", nil)
	b.Create("pods/b", nil)
	b.watch(func(t *watch.Target) { t.From = 101 }).expired()
	b.Create("pods/c", nil)
	w := b.watch(func(t *watch.Target) { t.From = 102 })
	w.last = 102
	w.expect("ADDED c@103 to 103")
}

// A watch whose client does not receive delays no other, and ends when it has fallen behind
// the changes that are kept.
func TestSlowWatcher(t *testing.T) {
	t.Parallel()
	b := start(t)
	blocked, release := make(chan struct{}, 1), make(chan struct{})
	slow := b.watch(func(t *watch.Target) {
		t.Send = func(*coppicev1.WatchBatch) error {
			select {
			case blocked <- struct{}{}:
			default:
			}
			<-release
			return nil
		}
	})
	testkit.Receive(t, b.ctx, "the slow watch to receive something", blocked)
	fast := b.watch(nil)
	fast.expect(" to 100")
	b.Create("pods/a", nil)
	fast.expect("ADDED a@101 to 101")

	// More changes than are kept.
	pod := &lifecycle.Node{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "s"}
	many := make([]state.Change, 1<<16)
	for i := range many {
		many[i] = state.Change{Event: &lifecycle.Event{}, Revision: 102 + uint64(i), After: pod, Resource: "pods"}
	}
	b.hub.Begin()
	b.hub.Commit(101+uint64(len(many)), many)
	close(release)
	slow.expired()
}

// A commit that is being applied may fail. Then its changes are dropped, and a watch that
// begins meanwhile misses nothing.
func TestAbort(t *testing.T) {
	t.Parallel()
	b := start(t)
	w := b.watch(nil)
	w.expect(" to 100")
	watched := b.hub.Begin()
	if !watched("pods") || watched("services") {
		t.Errorf("recording pods: %t, services: %t", watched("pods"), watched("services"))
	}
	late := b.watch(func(t *watch.Target) { t.Resource = "services" })
	b.hub.Abort()
	late.expect(" to 100")
	b.Create("services/s", nil)
	late.expect("ADDED s@101 to 101")
	b.Create("pods/a", nil)
	w.expect("ADDED a@102 to 102")
}

// If a commit begins before another has ended, a watch that begins meanwhile gets the
// changes from the first recorded commit on.
func TestOneBeginsBeforeAnotherEnds(t *testing.T) {
	t.Parallel()
	b := start(t)
	pod := func(revision uint64) []state.Change {
		n := &lifecycle.Node{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "a", Revision: revision}
		return []state.Change{{Event: &lifecycle.Event{Type: lifecycle.ObjectCreated}, Revision: revision, After: n, Resource: "pods"}}
	}
	if b.hub.Begin() != nil {
		t.Error("the first hub records without watches")
	}
	w := b.watch(nil)
	began := 0 // before the watch was known
	testkit.WaitFor(t, b.ctx, "the watch to be known", func() bool {
		began++
		watched := b.hub.Begin()
		return watched != nil && watched("pods")
	})
	for range began {
		b.hub.Commit(101, nil)
	}
	w.expect(" to 101")
	b.hub.Commit(102, pod(102))
	w.expect("ADDED a@102 to 102")
}

// Without watches nothing is recorded.
func TestWithoutWatches(t *testing.T) {
	t.Parallel()
	b := start(t)
	if watched := b.hub.Begin(); watched != nil {
		t.Error("changes are recorded without watches")
	}
	b.hub.Abort()
}

// A caller that waits for a revision is woken when it is reached.
func TestWait(t *testing.T) {
	t.Parallel()
	b := start(t)
	reached := make(chan error, 1)
	go func() { reached <- b.hub.Wait(b.ctx, 101) }()
	b.Create("pods/a", nil)
	if err := testkit.Receive(t, b.ctx, "the revision", reached); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if err := b.hub.Wait(ctx, 1000); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting in vain: %v", err)
	}
}
