package propagator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// watchful is a propagator whose warnings are recorded.
type watchful struct {
	*propagator.Propagator
	js     *published
	warned []string
}

func watch(realm *statetest.Realm) *watchful {
	w := &watchful{js: &published{}}
	w.Propagator = propagator.New(propagator.Config{
		Realm: bus.DefaultRealm, State: realm.State, JS: w.js,
		Parked: func(context.Context, string) (bool, error) { return false, nil },
		Now:    func() time.Time { return realm.Clock.Time() },
		Unpublished: func(_ *state.Snapshot, n *lifecycle.Node, err error) {
			w.warned = append(w.warned, n.Name+": "+err.Error())
		},
	})
	realm.Applied = func(_ uint64, _ []state.Change, rows []state.WorkChange) { w.Notify(rows) }
	return w
}

// publish returns the messages of one round, sorted.
func (w *watchful) publish(t *testing.T) []string {
	t.Helper()
	must.Succeed(t, w.Publish(t.Context()))
	var texts []string
	for _, m := range w.js.take() {
		texts = append(texts, read(t, m).text)
	}
	slices.Sort(texts)
	return texts
}

// respec gives an object a spec that the rules would not accept.
func respec(realm *statetest.Realm, target, spec string) {
	u := realm.UID(target)
	realm.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		node := *ctx.Node(u)
		return &lifecycle.Outcome{Events: []lifecycle.Event{{
			Type: lifecycle.ObjectUpdated, UID: u, Object: lifecycle.Object{Node: &node, Body: &coppicev1.Body{Spec: []byte(spec)}},
		}}}, nil
	})
}

// A call that cannot be published is warned of and passed over: other work is
// published, and the call is when it can be.
func TestUnpublishable(t *testing.T) {
	t.Parallel()
	too := func(subject string, atOnce, answer error) func(*published, *statetest.Realm) {
		return func(js *published, realm *statetest.Realm) {
			js.refusingWhat(func(m *nats.Msg) (error, error) {
				if strings.Contains(m.Subject, "."+realm.UID("pods/a").String()+".") && strings.HasPrefix(m.Subject, subject) {
					return atOnce, answer
				}
				return nil, nil
			})
		}
	}
	for name, c := range map[string]struct {
		spoil, mend func(*published, *statetest.Realm)
		warning     string
	}{
		"cannot be written": {
			func(_ *published, r *statetest.Realm) {
				respec(r, "pods/a", strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000))
			},
			func(_ *published, r *statetest.Realm) { respec(r, "pods/a", "[]") }, "exceeded max depth",
		},
		"too large for a message": {
			too("", nats.ErrMaxPayload, nil), func(js *published, _ *statetest.Realm) { js.refusingWhat(nil) }, "maximum payload exceeded",
		},
		"too large for the stream": {
			too("", nil, &jetstream.APIError{Code: 400, ErrorCode: 10054, Description: "message size exceeds maximum allowed"}),
			func(js *published, _ *statetest.Realm) { js.refusingWhat(nil) }, "message size exceeds maximum allowed",
		},
		"malformed subject": {
			too("", nats.ErrBadSubject, nil), func(js *published, _ *statetest.Realm) { js.refusingWhat(nil) }, "invalid subject",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			realm := statetest.New(t)
			w := watch(realm)
			for _, name := range []string{"a", "b"} {
				realm.Create("pods/"+name, &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
			}
			realm.Create("deployments/web", nil)
			realm.Create("pods/c", &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{realm.Reference("deployments/web", true)}})
			c.spoil(w.js, realm)
			w.publish(t)
			for _, target := range []string{"pods/a", "pods/b", "deployments/web"} {
				realm.Delete(target, lifecycle.Background)
			}
			if got, want := w.publish(t), 2; len(got) != want || strings.Contains(fmt.Sprint(got), "pods/a") {
				t.Errorf("published %q, want the call of b and what is dirty", got)
			}
			if len(w.warned) != 1 || !strings.HasPrefix(w.warned[0], "a: ") || !strings.Contains(w.warned[0], c.warning) {
				t.Errorf("warned of %q, want of %q", w.warned, c.warning)
			}
			// It is not tried again at once, but after a while, and warned of again.
			if got := w.publish(t); len(got) != 0 || len(w.warned) != 1 {
				t.Errorf("published %q at once, and warned of %q", got, w.warned)
			}
			realm.Clock = realm.Clock.Add(time.Minute + time.Second)
			if got := w.publish(t); len(got) != 0 || len(w.warned) != 2 {
				t.Errorf("published %q, warned of %q; want a second try", got, w.warned)
			}
			c.mend(w.js, realm)
			realm.Clock = realm.Clock.Add(time.Minute + time.Second)
			if got := w.publish(t); len(got) != 1 || !strings.HasPrefix(got[0], "call example.com/x: pods/a@") {
				t.Errorf("published %q, want the call of a", got)
			}
			realm.Clock = realm.Clock.Add(time.Hour)
			if got := w.publish(t); len(got) != 0 || len(w.warned) != 2 {
				t.Errorf("published %q, warned of %q; want nothing more", got, w.warned)
			}
		})
	}
}

// A refusal that the message does not cause has all rows published again.
func TestRefusedForNow(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	w := watch(realm)
	realm.Create("pods/a", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	realm.Delete("pods/a", lifecycle.Background)
	w.js.refusing(jetstream.ErrStreamNotFound, 1)
	if got := w.publish(t); len(got) != 0 || len(w.warned) != 0 {
		t.Errorf("published %q, warned of %q", got, w.warned)
	}
	if got := w.publish(t); len(got) != 1 {
		t.Errorf("published %q, want the call", got)
	}
	if bus.Unsendable(errors.Join(jetstream.ErrStreamNotFound)) {
		t.Error("a stream that does not exist counts as caused by the message")
	}
}

// An object that is larger than 64 KiB as JSON is not in calls, whatever makes it
// large; what identifies it is.
func TestLargeCalls(t *testing.T) {
	t.Parallel()
	finalizers := func(n int) []string {
		list := []string{"example.com/x"}
		for i := range n {
			list = append(list, fmt.Sprintf("example.com/%s-%d", strings.Repeat("f", 50), i))
		}
		return list
	}
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for name, c := range map[string]struct {
		spec      string
		meta      *coppicev1.ObjectMeta
		truncated bool
	}{
		"small":      {spec: text(60 << 10), meta: &coppicev1.ObjectMeta{Finalizers: finalizers(0)}},
		"large spec": {spec: text(64 << 10), meta: &coppicev1.ObjectMeta{Finalizers: finalizers(0)}, truncated: true},
		"escapes": {spec: "1", meta: &coppicev1.ObjectMeta{
			Finalizers: finalizers(0), Annotations: map[string]string{"a": strings.Repeat("\x01", 12<<10)},
		}, truncated: true},
		"finalizers": {spec: "1", meta: &coppicev1.ObjectMeta{Finalizers: finalizers(999)}, truncated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			realm := statetest.New(t)
			w := watch(realm)
			k := realm.Key("pods/a")
			c.meta.Name = "a"
			realm.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
				c.meta.Uid = "a"
				return lifecycle.Import(ctx, k, "", &coppicev1.Object{Metadata: c.meta, Spec: []byte(c.spec)})
			})
			realm.Delete("pods/a", lifecycle.Background)
			must.Succeed(t, w.Publish(t.Context()))
			messages := w.js.take()
			if len(messages) != len(c.meta.Finalizers) {
				t.Fatalf("%d messages, want %d; warned of %q", len(messages), len(c.meta.Finalizers), w.warned)
			}
			for _, m := range messages {
				var call coppicev1.FinalizeCall
				must.Succeed(t, manifest.UnmarshalMessage(m.Data, &call))
				o := call.GetObject()
				if call.GetTruncated() != c.truncated || o.GetMetadata().GetUid() != "a" || o.GetMetadata().GetNamespace() != "default" ||
					o.GetMetadata().GetDeletionTimestamp() == nil || (len(o.GetSpec()) == 0) != c.truncated || len(m.Data) > 65<<10 {
					t.Errorf("%d bytes, truncated %t: %.200v", len(m.Data), call.GetTruncated(), &call)
				}
			}
		})
	}
}

// Chunks of work are bounded in bytes: the uids of imported objects may be long.
func TestChunksOfLongUIDs(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	js := &published{}
	p := propagator.New(propagator.Config{
		Realm: bus.DefaultRealm, State: realm.State, JS: js, ChunkSize: 10_000, Now: func() time.Time { return realm.Clock.Time() },
	})
	realm.Create("deployments/web", nil)
	owner := realm.Reference("deployments/web", true)
	k := realm.Key("pods/a")
	var list []statetest.Decide
	for i := range 5000 {
		list = append(list, func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Import(ctx, k, "", &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
				Name: fmt.Sprint("p", i), Uid: fmt.Sprintf("%0128d", i), OwnerReferences: []*coppicev1.OwnerReference{owner},
			}})
		})
	}
	realm.Must(list...)
	realm.Delete("deployments/web", lifecycle.Background)
	must.Succeed(t, p.Publish(t.Context()))
	messages := js.take()
	for _, m := range messages {
		if len(m.Data) > 300<<10 {
			t.Errorf("a chunk of %d bytes", len(m.Data))
		}
	}
	if len(messages) < 3 {
		t.Errorf("%d chunks", len(messages))
	}
}

// What other rows need is published before most calls of objects with many finalizers: a round publishes a bounded
// number of their bytes. The others follow, each once, and nothing else is published again for them.
func TestManyCallsDelayNoOtherWork(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	w := watch(realm)
	if err := w.Publish(t.Context()); err != nil { // a round of everything comes first, and has no bound
		t.Fatal(err)
	}
	const wide, finalizers, narrow = 4, 500, 500 // 36 MiB of calls, and 4 MiB
	annotated := func() *coppicev1.ObjectMeta {
		return &coppicev1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("x", 8<<10)}}
	}
	for i := range wide {
		m := annotated()
		for k := range finalizers {
			m.Finalizers = append(m.Finalizers, fmt.Sprintf("example.com/f-%d", k))
		}
		realm.Create(fmt.Sprint("pods/wide-", i), m)
		realm.Delete(fmt.Sprint("pods/wide-", i), lifecycle.Foreground)
	}
	for i := range narrow {
		m := annotated()
		m.Finalizers = []string{"example.com/x"}
		realm.Create(fmt.Sprint("pods/p-", i), m)
		realm.Delete(fmt.Sprint("pods/p-", i), lifecycle.Foreground)
	}
	realm.Create("deployments/web", nil)
	realm.Create("replicasets/other", &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{realm.Reference("deployments/web", false)}})
	realm.Delete("deployments/web", lifecycle.Background)
	must.Succeed(t, w.Publish(t.Context()))
	published, bytes, before := map[string]int{}, 0, -1
	for _, m := range w.js.take() {
		switch m.Subject {
		case bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty):
			before = bytes
		case bus.WorkSubject(bus.DefaultRealm, bus.QueueFinish):
			var chunk coppicev1.FinishChunk
			must.Succeed(t, proto.Unmarshal(m.Data, &chunk))
			uids, err := uid.Unpack(nil, chunk.GetUids())
			must.Succeed(t, err)
			for _, u := range uids {
				published[string(u)]++
			}
		default:
			published[m.Subject]++
			bytes += len(m.Data)
		}
	}
	if before < 0 || before > 1<<20 {
		t.Errorf("the other work was published behind %d of %d bytes of calls", before, bytes)
	}
	for what, n := range published {
		if n != 1 {
			t.Errorf("%q was published %d times", what, n)
		}
	}
	if want := wide*finalizers + narrow + wide + narrow; len(published) != want {
		t.Errorf("%d calls and ends of foreground deletions were published, want %d", len(published), want)
	}
}
