package watch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// graphWatcher is a watch of the graph. It receives batches.
type graphWatcher struct {
	b       *hubRealm
	batches chan *coppicev1.GraphBatch
	ended   chan error
	last    uint64
}

func (b *hubRealm) watchGraph(change func(*watch.GraphTarget)) *graphWatcher {
	b.t.Helper()
	w := &graphWatcher{b: b, batches: make(chan *coppicev1.GraphBatch, 100), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(b.ctx)
	t := watch.GraphTarget{View: func() watch.GraphView { return watch.GraphView{} }, RealmID: func() []byte { return []byte("realm") }, Heartbeat: time.Hour, MaxBytes: 1 << 20}
	t.Send = func(batch *coppicev1.GraphBatch) error {
		select {
		case w.batches <- batch:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if change != nil {
		change(&t)
	}
	w.last = t.From
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ended <- b.hub.ServeGraph(ctx, t)
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// expect receives batches, as text. Each must go on from the one before.
func (w *graphWatcher) expect(want ...string) {
	w.b.t.Helper()
	for _, s := range want {
		batch := testkit.Receive(w.b.t, w.b.ctx, "a batch", w.batches)
		if batch.GetPreviousRevision() != w.last {
			w.b.t.Errorf("a batch goes on from %d, and the last one went to %d", batch.GetPreviousRevision(), w.last)
		}
		w.last = batch.GetRevision()
		var parts []string
		for _, c := range batch.GetChanges() {
			m := c.GetObject().GetMetadata()
			parts = append(parts, fmt.Sprintf("%s %s/%s@%d", strings.TrimPrefix(c.GetType().String(), "TYPE_"), c.GetResource(), m.GetName(), m.GetResourceVersion()))
		}
		if got := fmt.Sprintf("%s to %d", strings.Join(parts, ", "), batch.GetRevision()); got != s {
			w.b.t.Errorf("received %q, want %q", got, s)
		}
	}
}

// A watch of the graph begins with the revision that its changes follow, and has the changes of all resources, one batch for
// each commit. It resumes from a revision; another watch of one resource does not change it.
func TestGraphChanges(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.Create("pods/before", nil)
	w := b.watchGraph(nil)
	w.expect(" to 101")
	pods := b.watch(func(t *watch.Target) { t.ChangesOnly = true })
	pods.expect(" to 101")
	b.Must(b.Creation("pods/a", nil), b.Creation("services/s", nil))
	w.expect("ADDED pods/a@102, ADDED services/s@103 to 103")
	b.Create("services/held", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	w.expect("ADDED services/held@104 to 104")
	b.Delete("services/held", lifecycle.Background)
	w.expect("MODIFIED services/held@105 to 105")
	b.Delete("pods/before", lifecycle.Background)
	w.expect("DELETED pods/before@106 to 106")
	pods.expect("ADDED a@102 to 103", "DELETED before@106 to 106") // the commits between have nothing for it
	b.watchGraph(func(t *watch.GraphTarget) { t.From = 103 }).expect("ADDED services/held@104, MODIFIED services/held@105, DELETED pods/before@106 to 106")
	b.watch(func(t *watch.Target) { t.From = 100 }).expired()
	old := b.watchGraph(func(t *watch.GraphTarget) { t.From = 100 })
	if err := testkit.Receive(t, b.ctx, "the end", old.ended); err == nil || !strings.Contains(err.Error(), "no longer stored") {
		t.Errorf("a watch from before the first one ended with %v", err)
	}
}

// The graph has the metadata of objects without annotations, generateName and uses, and no contents.
func TestGraphHasNoContents(t *testing.T) {
	t.Parallel()
	b := start(t)
	w := b.watchGraph(nil)
	w.expect(" to 100")
	n := &lifecycle.Node{
		APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "a", Revision: 101, Generation: 2, Finalizers: []string{"example.com/x"},
		Owners: []lifecycle.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "s"}}, Uses: []lifecycle.Use{{Kind: "Secret", Name: "u"}},
		Protection: &lifecycle.Protection{Reason: "production"}, Initializers: []string{"example.com/init"},
	}
	body := &coppicev1.Body{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"}, GenerateName: "a-", Spec: []byte(`{}`), Status: []byte(`{}`), Extra: []byte(`{}`)}
	b.commit([]state.Change{{Event: &lifecycle.Event{Type: lifecycle.ObjectCreated}, Revision: 101, After: n, Resource: "pods", AfterBody: body}})
	got := testkit.Receive(t, b.ctx, "a batch", w.batches).GetChanges()[0].GetObject()
	want := lifecycle.Object{Node: n, Body: &coppicev1.Body{Labels: body.Labels}}.API()
	want.Metadata.Uses = nil
	if !proto.Equal(got, want) {
		t.Errorf("received %v, want %v", got, want)
	}
}

// What an actor may not see is not sent, by the rules of the time at which a batch is sent.
func TestGraphOfSome(t *testing.T) {
	t.Parallel()
	b := start(t)
	view := make(chan watch.GraphView, 1)
	set := func(rules, resource string) {
		view <- watch.GraphView{Rules: rules, Partial: true, Sees: func(r, _ string) bool { return r == resource }}
	}
	set("first", "pods")
	w := b.watchGraph(func(t *watch.GraphTarget) {
		t.View = func() watch.GraphView { v := <-view; view <- v; return v }
	})
	w.expect(" to 100")
	b.Must(b.Creation("pods/a", nil), b.Creation("services/s", nil))
	w.expect("ADDED pods/a@101 to 102")
	<-view
	set("second", "services")
	b.Must(b.Creation("pods/b", nil), b.Creation("services/t", nil))
	batch := testkit.Receive(t, b.ctx, "a batch", w.batches)
	if len(batch.GetChanges()) != 1 || batch.GetChanges()[0].GetResource() != "services" || batch.GetRules() != "second" || !batch.GetPartial() {
		t.Errorf("received %v", batch)
	}
}

// A commit that has begun before the first watch of the graph does not record all resources: the watch begins after it. One that
// records all resources is complete for a watch of one.
func TestGraphBeginsAfterCommits(t *testing.T) {
	t.Parallel()
	b := start(t)
	if b.hub.Begin() != nil {
		t.Error("the hub records without watches")
	}
	w := b.watchGraph(nil)
	began := 1
	testkit.WaitFor(t, b.ctx, "the watch to be known", func() bool {
		watched := b.hub.Begin()
		began++
		return watched != nil && watched("pods") && watched("services") && !watched("")
	})
	pods := b.watch(func(t *watch.Target) { t.ChangesOnly = true })
	for range began - 1 {
		b.hub.Commit(101, nil)
	}
	w.expect(" to 101")
	pods.expect(" to 101")
	change := func(resource string, revision uint64) state.Change {
		n := &lifecycle.Node{APIVersion: "v1", Kind: "X", Namespace: "default", Name: "a", Revision: revision}
		return state.Change{Event: &lifecycle.Event{Type: lifecycle.ObjectCreated}, Revision: revision, After: n, Resource: resource}
	}
	b.hub.Commit(103, []state.Change{change("services", 102), change("pods", 103)})
	w.expect("ADDED services/a@102, ADDED pods/a@103 to 103")
	pods.expect("ADDED a@103 to 103")
}

// The queue of the graph does not keep contents, and counts what it keeps.
func TestGraphKeepsLittle(t *testing.T) {
	t.Parallel()
	b := start(t)
	w := b.watchGraph(nil)
	w.expect(" to 100")
	b.commit(updates("pods", 101, 100, 1<<20))
	if kept := b.hub.Usage(); kept.Changes != 100 || kept.Bytes > 100*4096 {
		t.Errorf("kept: %+v, want 100 changes of at most 4 KiB", kept)
	}
}

// BenchmarkGraph measures the time for a change of one object that 50 watches of the graph send, in
// commits of one change.
func BenchmarkGraph(b *testing.B) {
	const watches = 50
	hub := watch.NewHub(100, time.Now, watch.Limits{})
	ctx, cancel := context.WithCancel(b.Context())
	sent := make(chan int, 1<<16)
	ended := make(chan error, watches)
	for range watches {
		go func() {
			ended <- hub.ServeGraph(ctx, watch.GraphTarget{
				View:      func() watch.GraphView { return watch.GraphView{} },
				Heartbeat: time.Hour, MaxBytes: 1 << 20,
				Send: func(batch *coppicev1.GraphBatch) error {
					data, err := proto.Marshal(batch)
					must.Succeed(b, err)
					if len(data) > 0 {
						sent <- len(batch.GetChanges())
					}
					return nil
				},
			})
		}()
	}
	for range watches {
		<-sent
	}
	revision := uint64(100)
	for b.Loop() {
		revision++
		changes := updates("pods", revision, 1, 1000)
		hub.Begin()
		hub.Commit(revision, changes)
		for n := 0; n < watches; {
			n += <-sent
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*watches), "ns/change/watch")
	cancel()
	for range watches {
		<-ended
	}
}
