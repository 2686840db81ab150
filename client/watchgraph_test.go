package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	graphservice "github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// graphMirror is a copy of the graph, as a caller of WatchGraph keeps it.
type graphMirror struct {
	mu        sync.Mutex
	objects   map[string]string // by uid
	revisions map[string]uint64 // by uid, of all objects that were ever delivered
	unseen    map[string]bool   // of a restart
	synced    int
	restarted int
	wrong     []string
}

func newGraphMirror() *graphMirror {
	return &graphMirror{objects: map[string]string{}, revisions: map[string]uint64{}}
}

func (m *graphMirror) apply(e client.GraphEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := e.Object.GetMetadata().GetUid()
	if e.Object != nil {
		if old := m.revisions[u]; e.Revision < old || e.Revision == old && m.unseen == nil {
			m.wrong = append(m.wrong, fmt.Sprintf("%s %s %s at %d, after %d", e.Type, e.Resource, e.Object.GetMetadata().GetName(), e.Revision, old))
		}
		m.revisions[u] = e.Revision
		delete(m.unseen, u)
	}
	switch {
	case e.Restarted:
		m.restarted++
		m.unseen = map[string]bool{}
		for u := range m.objects {
			m.unseen[u] = true
		}
	case e.Synced:
		m.synced++
		for u := range m.unseen {
			delete(m.objects, u)
		}
		m.unseen = nil
	case e.Object == nil:
	case e.Type == client.Deleted:
		delete(m.objects, u)
	default:
		m.objects[u] = inGraph(e.Resource.String(), e.Object)
	}
}

// inGraph is what the graph has of an object.
func inGraph(resource string, o *client.Object) string {
	n := proto.CloneOf(o)
	n.Spec, n.Status, n.Extra = nil, nil, nil
	n.Metadata.Annotations, n.Metadata.GenerateName, n.Metadata.Uses = nil, "", nil
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(n)
	return fmt.Sprintf("%s %x %v", resource, data, err)
}

// agrees reports whether the copy has what lists of all kinds have.
func (m *graphMirror) agrees(s *shop, c *client.Client) bool {
	kinds, err := c.Kinds(s.Ctx)
	must.Succeed(s.TB, err)
	list := map[string]string{}
	for _, k := range kinds.All() {
		of := client.ResourceOf(k)
		for o, err := range c.Resource(of, "").List(s.Ctx, client.IncludeUninitialized(true)) {
			if errors.Is(err, client.ErrUnknownKind) {
				return false
			}
			must.Succeed(s.TB, err)
			list[o.GetMetadata().GetUid()] = inGraph(of.String(), o)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced > 0 && m.unseen == nil && maps.Equal(list, m.objects)
}

// counts returns how often the mirror was restarted and synced.
func (m *graphMirror) counts() (restarted, synced int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.restarted, m.synced
}

// watch has the mirror follow the graph until the test ends. stall, unless it is nil, is called after each event.
func (m *graphMirror) watch(s *shop, c *client.Client, stall func(), opts ...client.WatchGraphOption) {
	ctx, stop := context.WithCancel(s.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range c.WatchGraph(ctx, opts...) {
			if err != nil {
				s.TB.Errorf("the watch ended: %v", err)
				return
			}
			if m.apply(e); stall != nil {
				stall()
			}
		}
	}()
	s.TB.Cleanup(func() {
		stop()
		<-done
		if len(m.wrong) > 0 {
			s.TB.Errorf("delivered again or in a wrong order: %q", m.wrong)
		}
	})
}

// A caller that applies the events has what lists of all kinds have, after any history: changes, deletions in the
// foreground, kinds that are registered and removed, objects that wait for their initializers; also if the watch begins while all this happens, and
// if the server ends each reply after a while.
func TestWatchGraph(t *testing.T) {
	t.Parallel()
	s := startWith(t, allinone.Config{Graph: func(g *graphservice.Config) { g.ReplyTime = 300 * time.Millisecond }})
	random := rand.New(rand.NewPCG(nightly.Seed(t), 1))
	buckets := client.Resource{Group: "example.com", Plural: "buckets"}
	bucketKind := client.NewKindObject(client.Kind{Group: "example.com", Kind: "Bucket", Plural: "buckets", Scope: api.ScopeCluster, Versions: []api.KindVersion{{Name: "v1"}}})
	resources := []client.ResourceClient{s.objects, s.Resource(client.Resource{Plural: "pods"}, "shop"), s.Resource(client.Resource{Group: "apps", Plural: "deployments"}, "other"), s.Resource(buckets, "")}
	first := newGraphMirror()
	first.watch(s, s.Client, nil)
	mirrors := []*graphMirror{first}
	var created []*client.Object
	for i := range 300 {
		r := resources[random.IntN(len(resources))]
		name := fmt.Sprintf("o-%d", random.IntN(12))
		var err error
		switch random.IntN(8) {
		case 0, 1, 2:
			o := &client.Object{Metadata: &client.ObjectMeta{Name: name, Labels: map[string]string{"n": fmt.Sprint(i)}, Annotations: map[string]string{"note": "x"}}, Spec: []byte(`{"a":1}`)}
			if random.IntN(3) == 0 {
				o.Metadata.Finalizers = []string{bus.ExampleFinalizer}
			}
			if random.IntN(5) == 0 {
				o.Metadata.Initializers = &coppicev1.Initializers{Pending: []*coppicev1.Initializer{{Name: "example.com/init"}}}
			}
			if len(created) > 0 && r != resources[3] {
				o.Metadata.OwnerReferences = []*client.OwnerReference{client.NewOwnerReference(created[random.IntN(len(created))])}
			}
			if o, err = r.Create(s.Ctx, o); err == nil && r != resources[2] {
				created = append(created, o)
			}
		case 3, 4:
			_, err = r.Patch(s.Ctx, name, fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, i))
		case 5:
			_, err = r.Delete(s.Ctx, name, []client.PropagationPolicy{client.Foreground, client.Background, client.Orphan}[random.IntN(3)])
		case 6:
			_, err = r.RemoveFinalizer(s.Ctx, name, bus.ExampleFinalizer)
		case 7:
			switch kinds := s.Resource(client.KindsResource, ""); random.IntN(4) {
			case 0:
				_, err = kinds.Create(s.Ctx, proto.CloneOf(bucketKind))
			case 1:
				_, err = kinds.Delete(s.Ctx, "buckets.example.com")
			}
		}
		var e *client.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
		if i%100 == 50 {
			m := newGraphMirror()
			m.watch(s, s.Client, nil)
			mirrors = append(mirrors, m)
		}
	}
	for i, m := range mirrors {
		s.WaitFor(fmt.Sprintf("mirror %d to agree", i), func() bool { return m.agrees(s, s.Client) })
		if restarted, synced := m.counts(); restarted > 0 || synced != 1 {
			t.Errorf("mirror %d was restarted %d times and synced %d times, want 0 and 1", i, restarted, synced)
		}
	}
}

// A watch continues after a restart of NATS and of all services: what it has delivered is what there is.
func TestWatchGraphAfterRestart(t *testing.T) {
	t.Parallel()
	c := allinone.Config{Dir: t.TempDir(), Port: testkit.FreePorts(t, 1)[0]}
	s := startWith(t, c)
	s.create("a")
	s.create("b")
	nc, err := nats.Connect(s.Services.Server().URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	m := newGraphMirror()
	m.watch(s, client.New(nc), nil, client.IdleTimeout(7*time.Second))
	s.WaitFor("the caller to have all", func() bool { return m.agrees(s, s.Client) })
	s.delete("a")
	s.Stop()
	s = startWith(t, c)
	s.create("c")
	s.delete("b")
	s.WaitFor("the caller to have all again", func() bool { return m.agrees(s, s.Client) })
}

// A caller that pauses while more changes come than wait for it gets them afterwards, or, if the server does not have
// them any more, all objects again.
func TestWatchGraphWithSlowCaller(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits  watch.Limits
		restart bool
	}{"the server has the changes": {watch.Limits{Bytes: 1 << 30, Changes: 1 << 20}, false}, "the server has dropped them": {watch.Limits{Changes: 8}, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startWith(t, allinone.Config{Graph: func(g *graphservice.Config) { g.Watch = c.limits }})
			nc := s.Connect(bus.LocalUser)
			slow := make(chan struct{}, 1)
			nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
				if errors.Is(err, nats.ErrSlowConsumer) {
					select {
					case slow <- struct{}{}:
					default:
					}
				}
			})
			wide := &client.Object{Metadata: &client.ObjectMeta{Name: "wide", Labels: map[string]string{}}}
			for i := range 3500 {
				wide.Metadata.Labels[fmt.Sprintf("label-%d", i)] = strings.Repeat("x", 60)
			}
			s.Create(configMaps, "shop", wide)
			s.create("gone")
			m := newGraphMirror()
			release := make(chan struct{})
			m.watch(s, client.New(nc), func() {
				if _, synced := m.counts(); synced > 0 {
					<-release
				}
			})
			s.WaitFor("the caller to have all", func() bool { return m.agrees(s, s.Client) })
			s.delete("gone")
			for n, lost := 0, false; !lost; n++ {
				_, err := s.objects.Patch(s.Ctx, "wide", fmt.Appendf(nil, `{"metadata":{"labels":{"label-0":"%d"}}}`, n))
				must.Succeed(t, err)
				select {
				case <-slow:
					lost = true
				default:
				}
			}
			s.create("new")
			close(release)
			s.WaitFor("the caller to have all again", func() bool { return m.agrees(s, s.Client) })
			if restarted, _ := m.counts(); (restarted > 0) != c.restart {
				t.Errorf("restarted %d times; want a restart: %t", restarted, c.restart)
			}
		})
	}
}

// WatchGraph delivers no older state of an object after a page had a newer one, asks again from its revision after a lost batch,
// and delivers all objects again after Expired, and after other rules.
func TestWatchGraphResumes(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	answers := testkit.Conn(t, server, bus.RoleAnswers)
	requests := make(chan *nats.Msg, 10)
	answersTo(t, answers, bus.VerbWatchGraph, func(m *nats.Msg) { requests <- m })
	c := client.New(testkit.Conn(t, server, bus.RoleViewer), client.WithActor(bus.RoleViewer), client.WithTimeout(testkit.Timeout))
	events := make(chan string, 100)
	go func() {
		for e, err := range c.WatchGraph(ctx) {
			switch m := e.Object.GetMetadata(); {
			case err != nil:
				events <- err.Error()
			case e.Object != nil:
				events <- fmt.Sprintf("%s %s %s@%d", e.Type, e.Resource, m.GetUid(), e.Revision)
			case e.Synced || e.Restarted:
				events <- fmt.Sprintf("synced %t restarted %t at %d", e.Synced, e.Restarted, e.Revision)
			}
		}
		close(events)
	}()
	request := func(want *coppicev1.WatchGraphRequest) *nats.Msg {
		t.Helper()
		m := testkit.Receive(t, ctx, "a request", requests)
		var r coppicev1.WatchGraphRequest
		want.Protocol = 1
		if err := proto.Unmarshal(m.Data, &r); err != nil || !proto.Equal(&r, want) {
			t.Fatalf("the client asks for %v, %v; want %v", &r, err, want)
		}
		return m
	}
	of := func(kind coppicev1.WatchEvent_Type, uid string, revision uint64) *coppicev1.GraphChange {
		return &coppicev1.GraphChange{Type: kind, Resource: "pods", Object: &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Uid: uid, ResourceVersion: revision}}}
	}
	const added, modified, deleted = coppicev1.WatchEvent_TYPE_ADDED, coppicev1.WatchEvent_TYPE_MODIFIED, coppicev1.WatchEvent_TYPE_DELETED
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := testkit.Receive(t, ctx, w, events); got != w {
				t.Errorf("delivered %q, want %q", got, w)
			}
		}
	}
	stream := request(&coppicev1.WatchGraphRequest{})
	reply(t, stream, &coppicev1.GraphBatch{Revision: 10, Rules: "a"})
	page := request(&coppicev1.WatchGraphRequest{Page: true, MinRevision: 10})
	reply(t, page, &coppicev1.GraphBatch{Revision: 12, Rules: "a", Continue: "x", Changes: []*coppicev1.GraphChange{of(added, "a", 5), of(added, "b", 12)}})
	page = request(&coppicev1.WatchGraphRequest{Page: true, Continue: "x", MinRevision: 12})
	reply(t, page, &coppicev1.GraphBatch{Revision: 14, Rules: "a", Changes: []*coppicev1.GraphChange{of(added, "c", 2)}})
	expect("ADDED pods a@5", "ADDED pods b@12", "ADDED pods c@2", "synced true restarted false at 10")
	reply(t, stream, &coppicev1.GraphBatch{PreviousRevision: 10, Revision: 15, Rules: "a", Changes: []*coppicev1.GraphChange{
		of(modified, "b", 11), of(modified, "b", 12), of(modified, "a", 13), of(deleted, "b", 15),
	}})
	expect("MODIFIED pods a@13", "DELETED pods b@15")
	reply(t, stream, &coppicev1.GraphBatch{PreviousRevision: 16, Revision: 17, Rules: "a"}) // the batch to 16 was lost
	stream = request(&coppicev1.WatchGraphRequest{FromRevision: 15})
	reply(t, stream, &coppicev1.GraphBatch{PreviousRevision: 15, Revision: 18, Rules: "a", Changes: []*coppicev1.GraphChange{of(deleted, "c", 16)}})
	expect("DELETED pods c@16")
	reply(t, stream, &coppicev1.GraphBatch{Error: (&client.Error{Reason: client.ErrExpired, Message: "no longer stored"}).Status()})
	stream = request(&coppicev1.WatchGraphRequest{MinRevision: 18})
	reply(t, stream, &coppicev1.GraphBatch{Revision: 30, Rules: "a"})
	page = request(&coppicev1.WatchGraphRequest{Page: true, MinRevision: 30})
	reply(t, page, &coppicev1.GraphBatch{Revision: 30, Rules: "a", Changes: []*coppicev1.GraphChange{of(added, "a", 13)}})
	expect("synced false restarted true at 18", "ADDED pods a@13", "synced true restarted false at 30")
	reply(t, stream, &coppicev1.GraphBatch{PreviousRevision: 30, Revision: 31, Rules: "b"})
	stream = request(&coppicev1.WatchGraphRequest{MinRevision: 30})
	reply(t, stream, &coppicev1.GraphBatch{Revision: 31, Rules: "b"})
	page = request(&coppicev1.WatchGraphRequest{Page: true, MinRevision: 31})
	reply(t, page, &coppicev1.GraphBatch{Revision: 31, Rules: "b"})
	expect("synced false restarted true at 30", "synced true restarted false at 31")
	reply(t, stream, &coppicev1.GraphBatch{Error: (&client.Error{Reason: client.ErrForbidden, Message: "no rule allows it"}).Status()})
	expect("no rule allows it")
}
