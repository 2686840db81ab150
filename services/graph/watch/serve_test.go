package watch_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// A watch of a namespace and of labels gets the changes of matching objects: an object that
// stops matching is deleted for it, one that starts matching is added.
func TestSelection(t *testing.T) {
	t.Parallel()
	b := start(t)
	web, err := selector.Parse("app=web")
	must.Succeed(t, err)
	b.Create("pods/there", labelled("web"))
	b.Create("pods/foreign@shop", labelled("web"))
	b.Create("pods/unlike", labelled("db"))
	w := b.watch(func(t *watch.Target) { t.Labels, t.Namespace = web, "default" })
	w.expect("ADDED there@101 to 103")
	relabel := func(name, value string) {
		t.Helper()
		k := b.Key("pods/" + name)
		b.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Patch(ctx, k, &coppicev1.Patch{Name: name, Patch: []byte(`{"metadata":{"labels":{"app":"` + value + `"}}}`)})
		})
	}
	b.Create("pods/foreign2@shop", labelled("web"))
	relabel("unlike", "web")
	w.expect("ADDED unlike@105 to 105")
	relabel("there", "db")
	w.expect("DELETED there@106 to 106")
	b.Delete("pods/there", lifecycle.Background)
	b.Create("pods/new", labelled("web"))
	w.expect("ADDED new@108 to 108")
}

// B8.3: A watch does not get changes of an object that is unreadable, and gets its removal, whatever
// the selector, without a body.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	b := start(t)
	web, err := selector.Parse("app=web")
	must.Succeed(t, err)
	w := b.watch(func(t *watch.Target) { t.Labels = web })
	w.expect(" to 100")
	n := &lifecycle.Node{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "bad", Revision: 90}
	b.commit([]state.Change{{Event: &lifecycle.Event{Type: lifecycle.DeletionMarked}, Revision: 101, Before: n, After: n, Resource: "pods"}})
	b.commit([]state.Change{{Event: &lifecycle.Event{Type: lifecycle.ObjectDeleted}, Revision: 102, Before: n, Resource: "pods"}})
	w.expect("DELETED bad@102 to 102")
}

// A watch to which nothing happens says that it is alive, and how far it is.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	b := start(t)
	w := b.watch(func(t *watch.Target) { t.Heartbeat = 5 * time.Millisecond })
	w.expect(" to 100", " to 100")
	b.Create("services/s", nil)
	testkit.WaitFor(t, b.ctx, "a heartbeat with the new revision", func() bool { return w.next() == " to 101" })
}

// Batches are no larger than they may be, of the state as well as of changes.
// No batch has a revision until the state is complete.
func TestLargeBatches(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.Create("pods/a", labelled(strings.Repeat("a", 60)))
	b.Create("pods/b", labelled(strings.Repeat("b", 60)))
	w := b.watch(func(t *watch.Target) { t.MaxBytes = 150 })
	w.expect("ADDED a@101 to 0", "ADDED b@102 to 102")
	b.Must(b.Creation("pods/c", labelled(strings.Repeat("c", 60))), b.Creation("pods/d", labelled(strings.Repeat("d", 60))))
	w.expect("ADDED c@103 to 103", "ADDED d@104 to 104")
}

// A failure to send ends the watch.
func TestSendFails(t *testing.T) {
	t.Parallel()
	b := start(t)
	gone := errors.New("gone")
	w := b.watch(func(t *watch.Target) { t.Send = func(*coppicev1.WatchBatch) error { return gone } })
	if err := testkit.Receive(t, b.ctx, "the end", w.ended); !errors.Is(err, gone) {
		t.Errorf("ended with %v", err)
	}
	unknown := b.watch(func(t *watch.Target) { t.Resource = "widgets.example.com" })
	var e *lifecycle.Error
	if err := testkit.Receive(t, b.ctx, "the end", unknown.ended); !errors.As(err, &e) || e.Reason != api.ErrUnknownKind {
		t.Errorf("a watch of an unknown resource ended with %v", err)
	}
}
