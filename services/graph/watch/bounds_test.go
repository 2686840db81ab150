package watch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// updates are changes of one object, whose body has so many bytes.
func updates(resource string, from uint64, count, bytes int) []state.Change {
	spec := []byte(strings.Repeat("x", bytes))
	changes := make([]state.Change, count)
	for i := range changes {
		body := func() *coppicev1.Body {
			return &coppicev1.Body{Labels: map[string]string{"app": "web"}, Spec: spec}
		}
		n := &lifecycle.Node{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "large", Revision: from + uint64(i)}
		changes[i] = state.Change{
			Event: &lifecycle.Event{Type: lifecycle.ObjectUpdated}, Revision: from + uint64(i),
			Before: n, After: n, Resource: resource, BeforeBody: body(), AfterBody: body(),
		}
	}
	return changes
}

func (b *hubRealm) commit(changes []state.Change) {
	b.hub.Begin()
	b.hub.Commit(changes[len(changes)-1].Revision, changes)
}

// 400 updates of an object of 1 MiB under a watch took 1.9 GB. What is kept is bounded
// in bytes, and counts an update once, not before and after.
func TestBytesAreBounded(t *testing.T) {
	t.Parallel()
	b := start(t)
	w := b.watch(func(t *watch.Target) { t.MaxBytes = 4 << 20 })
	w.expect(" to 100")
	for i := range 400 {
		b.commit(updates("pods", 101+uint64(i), 1, 1<<20))
		kept := b.hub.Usage()
		if want := min(i+1, 63); kept.Changes != want {
			t.Fatalf("after %d updates of 1 MiB %d are kept, want %d", i+1, kept.Changes, want)
		}
		if kept.Bytes < kept.Changes<<20 || kept.Bytes > 64<<20 {
			t.Fatalf("after %d updates of 1 MiB %d bytes are kept in %d changes, want at most 64 MiB", i+1, kept.Bytes, kept.Changes)
		}
		if got, want := w.next(), fmt.Sprintf("MODIFIED large@%d to %d", 101+i, 101+i); got != want {
			t.Fatalf("sent %q, want %q", got, want)
		}
	}
	// Resuming: from what is kept, and not from before that.
	resumed := b.watch(func(t *watch.Target) { t.From, t.MaxBytes = 499, 4<<20 })
	resumed.last = 499
	resumed.expect("MODIFIED large@500 to 500")
	b.watch(func(t *watch.Target) { t.From = 500 - 64 }).expired()
}

// Large changes of one resource push out none of another.
func TestResourcesShareNoRoom(t *testing.T) {
	t.Parallel()
	b := startWith(t, watch.Limits{Bytes: 1 << 20, Changes: 100})
	b.watch(nil).expect(" to 100")
	b.watch(func(t *watch.Target) { t.Resource = "services" }).expect(" to 100")
	b.commit(updates("pods", 101, 3, 1<<10))
	b.commit(updates("services", 104, 50, 100<<10)) // too many bytes
	b.commit(updates("services", 154, 200, 1<<10))  // too many changes
	if kept := b.hub.Usage(); kept.Bytes > 1<<20 || kept.Changes > 100 {
		t.Errorf("kept: %+v, want at most 1 MiB and 100", kept)
	}
	quiet := b.watch(func(t *watch.Target) { t.From = 101 })
	quiet.last = 101
	quiet.expect("MODIFIED large@102, MODIFIED large@103 to 353")
	b.watch(func(t *watch.Target) { t.Resource, t.From = "services", 110 }).expired()
}

// What every watch has sent is kept for two minutes, for those that resume; a slow
// watch keeps what it needs; nothing is kept for resources without watches.
func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := watch.NewHub(100, time.Now, watch.Limits{})
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		ended := make(chan error, 1)
		serve := func(send func(*coppicev1.WatchBatch) error) {
			ended <- hub.Serve(ctx, nil, watch.Target{Resource: "pods", ChangesOnly: true, Heartbeat: time.Hour, MaxBytes: 1 << 20, Send: send})
		}
		first := true
		go serve(func(*coppicev1.WatchBatch) error {
			if first {
				first = false
				return nil // where it begins
			}
			<-release
			return nil
		})
		kept := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := hub.Usage(); got.Changes != want || (got.Bytes == 0) != (want == 0) {
				t.Errorf("kept: %+v, want %d changes", got, want)
			}
		}
		synctest.Wait()
		commit := func(from uint64, n int) {
			hub.Begin()
			hub.Commit(from+uint64(n)-1, updates("pods", from, n, 100))
			synctest.Wait()
		}
		commit(101, 1) // is being sent
		commit(102, 2) // is still needed
		kept(3)
		time.Sleep(3 * time.Minute) //nolint:forbidigo // passes at once: the clock of synctest
		kept(2)
		close(release)
		synctest.Wait()
		kept(2)
		time.Sleep(time.Minute) //nolint:forbidigo // passes at once: the clock of synctest
		kept(0)
		commit(104, 5)
		kept(5)
		cancel()
		<-ended
		time.Sleep(time.Minute) //nolint:forbidigo // passes at once: the clock of synctest
		kept(5)
		time.Sleep(2 * time.Minute) //nolint:forbidigo // passes at once: the clock of synctest
		kept(0)
		if hub.Begin() != nil {
			t.Error("a resource without watches is still recorded")
		}
		hub.Abort()
	})
}

// One actor cannot take the watches of all others, and all together are bounded.
func TestWatchesAreBounded(t *testing.T) {
	t.Parallel()
	b := startWith(t, watch.Limits{Watches: 3, PerActor: 2})
	open := func(actor string) *watcher {
		return b.watch(func(t *watch.Target) { t.Actor = actor })
	}
	refused := func(actor, says string) {
		t.Helper()
		err := testkit.Receive(t, b.ctx, "a refusal", open(actor).ended)
		var e *lifecycle.Error
		if !errors.As(err, &e) || e.Reason != api.ErrTooManyRequests || e.RetryAfter == 0 || !strings.Contains(e.Message, says) {
			t.Errorf("one watch more of %s: %v, want a refusal that says %q", actor, err, says)
		}
	}
	gone := errors.New("gone")
	begun, leave := make(chan struct{}), make(chan struct{})
	first := b.watch(func(t *watch.Target) {
		t.Actor = "greedy"
		t.Send = func(*coppicev1.WatchBatch) error {
			close(begun)
			<-leave
			return gone
		}
	})
	testkit.Receive(t, b.ctx, "the first watch to be open", begun)
	open("greedy").expect(" to 100")
	refused("greedy", `actor "greedy" has 2 watches open`)
	open("modest").expect(" to 100")
	refused("other", "takes 3")
	close(leave)
	if err := testkit.Receive(t, b.ctx, "the end of a watch", first.ended); !errors.Is(err, gone) {
		t.Error(err)
	}
	open("other").expect(" to 100")
	if kept := b.hub.Usage(); kept.Watches != 3 {
		t.Errorf("%d watches, want 3", kept.Watches)
	}
}

// Of many watches that begin at once only a few hold a batch of the objects as they
// are; one that blocks does not keep other actors from beginning.
func TestStatesAreBounded(t *testing.T) {
	t.Parallel()
	b := startWith(t, watch.Limits{States: 3, StatesPerActor: 2})
	b.Create("pods/a", nil)
	var sending, most atomic.Int64
	release := make(chan struct{})
	begun := make(chan struct{}, 100)
	served := make(chan struct{}, 100)
	for range 20 {
		b.watch(func(t *watch.Target) {
			t.Actor = "greedy"
			t.Send = func(*coppicev1.WatchBatch) error {
				most.Store(max(most.Load(), sending.Add(1)))
				begun <- struct{}{}
				<-release
				sending.Add(-1)
				served <- struct{}{}
				return nil
			}
		})
	}
	testkit.Receive(t, b.ctx, "a first", begun)
	testkit.Receive(t, b.ctx, "a second", begun)
	b.watch(func(t *watch.Target) { t.Actor = "modest" }).expect("ADDED a@101 to 101")
	if n := len(begun); n != 0 {
		t.Errorf("%d more of the greedy actor send than may", n)
	}
	close(release)
	for range 20 {
		testkit.Receive(t, b.ctx, "all to be served", served)
	}
	if n := most.Load(); n > 2 {
		t.Errorf("%d watches of one actor sent at once, want at most 2", n)
	}
}

// A watch of changes alone begins with the revision that it goes on from, which is
// not before the one that it asks for.
func TestChangesOnly(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.Create("pods/a", nil)
	w := b.watch(func(t *watch.Target) { t.ChangesOnly, t.MinRevision = true, 102 })
	b.Create("pods/b", nil)
	w.expect(" to 102")
	b.Create("pods/c", nil)
	w.expect("ADDED c@103 to 103")
}
