//go:build unix

package processes_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var configMaps = client.Resource{Plural: "configmaps"}

// informer maintains a cache from the events of a watch, as informers of client-go do. It
// stops at a given event until it may continue.
type informer struct {
	t *testing.T

	mu      sync.Mutex
	cache   map[string]string // uid and revision by namespace and name
	synced  bool
	events  int
	pauseAt int           // the event after which it stops
	paused  chan struct{} // closed when it has stopped
	resume  chan struct{} // closed when it may continue
}

func newInformer(t *testing.T) *informer {
	t.Helper()
	return &informer{t: t, cache: map[string]string{}}
}

// pause stops the informer after a number of further events, until resume is called. paused
// is closed when it has stopped.
func (i *informer) pause(after int) (paused <-chan struct{}, resume func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pauseAt, i.paused, i.resume = i.events+after, make(chan struct{}), make(chan struct{})
	goOn := i.resume
	return i.paused, func() { close(goOn) }
}

// run watches until ctx ends.
func (i *informer) run(ctx context.Context, objects client.ResourceClient) {
	// Heartbeats come every five seconds.
	for e, err := range objects.Watch(ctx, client.IdleTimeout(6*time.Second)) {
		if err != nil {
			i.t.Errorf("the watch ended: %v", err)
			return
		}
		if resume := i.apply(e); resume != nil {
			select {
			case <-resume:
			case <-ctx.Done():
				return
			}
		}
	}
}

// apply applies an event to the cache. It fails the test if the event does not fit the
// cache. It returns a channel to wait for, or nil.
func (i *informer) apply(e client.WatchEvent) (resume <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e.Object == nil {
		i.synced = i.synced || e.Synced
		return nil
	}
	m := e.Object.GetMetadata()
	key := m.GetNamespace() + "/" + m.GetName()
	was, had := i.cache[key]
	switch e.Type {
	case client.Added:
		if had {
			i.t.Errorf("%s is added, and was there", key)
		}
		i.cache[key] = version(e.Object)
	case client.Modified:
		if uid, _, _ := strings.Cut(was, "@"); uid != m.GetUid() {
			i.t.Errorf("%s with uid %s is modified, and %q was there", key, m.GetUid(), was)
		}
		i.cache[key] = version(e.Object)
	case client.Deleted:
		if uid, _, _ := strings.Cut(was, "@"); uid != m.GetUid() {
			i.t.Errorf("%s with uid %s is deleted, and %q was there", key, m.GetUid(), was)
		}
		delete(i.cache, key)
	}
	if i.events++; i.events == i.pauseAt {
		close(i.paused)
		return i.resume
	}
	return nil
}

func version(o *coppicev1.Object) string {
	return fmt.Sprintf("%s@%d", o.GetMetadata().GetUid(), o.GetMetadata().GetResourceVersion())
}

// listed is what a list returns, as a cache has it.
func listed(ctx context.Context, t *testing.T, objects client.ResourceClient) map[string]string {
	t.Helper()
	list := map[string]string{}
	for o, err := range objects.List(ctx) {
		must.Succeed(t, err)
		list[o.GetMetadata().GetNamespace()+"/"+o.GetMetadata().GetName()] = version(o)
	}
	return list
}

// agrees reports whether the cache is a list, which nothing has changed since.
func (i *informer) agrees(list map[string]string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.synced && maps.Equal(list, i.cache)
}

var watchRounds = flag.Int("rounds", 1, "how often TestProcessesWatch watches while graph services are killed")

// The graph service is killed while a watch reads the objects or follows their changes, and
// the consumer may be slow. In the end a cache of the delivered events equals the result of
// a list, without the objects that were deleted meanwhile.
func TestProcessesWatch(t *testing.T) {
	t.Parallel()
	const (
		objects = 4000
		size    = 2 << 10 // of each, so that there are several pages
	)
	seed := nightly.Seed(t)
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := newDeployment(t)
	d.nats()
	generation := 0
	begin := func() *service {
		generation++
		g := d.instance(fmt.Sprintf("graph-%d", generation), bus.RoleGraph, "--data", d.dir+"/graph", "--lease", "2s")
		g.ready()
		return g
	}
	graph := begin()
	app := d.application().Resource(configMaps, "shop")
	name := func(i int) string { return fmt.Sprintf("c-%05d", i) }
	object := func(i int, text string) *coppicev1.Object {
		return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name(i), Annotations: map[string]string{"text": text}}}
	}
	for from := 0; from < objects; from += 1000 {
		batch := make([]*coppicev1.Object, 1000)
		for i := range batch {
			batch[i] = object(from+i, strings.Repeat("x", size))
		}
		for _, r := range valueOf(app.CreateBatch(d.ctx, batch))(t) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	next := objects
	// change deletes, creates again, updates and creates objects, of all pages.
	change := func(ctx context.Context) {
		t.Helper()
		var names []string
		for range 100 {
			names = append(names, name(random.IntN(next)))
		}
		valueOf(app.DeleteBatch(ctx, names))(t)
		var again []*coppicev1.Object
		for _, n := range names[:30] {
			again = append(again, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: n}})
		}
		for range 30 {
			again = append(again, object(next, "new"))
			next++
		}
		valueOf(app.CreateBatch(ctx, again))(t)
		var updates []*coppicev1.Object
		for range 30 {
			updates = append(updates, object(random.IntN(next), "updated"))
		}
		valueOf(app.UpdateBatch(ctx, updates))(t)
	}
	for round := range *watchRounds {
		ctx := testkit.Context(t)
		i := newInformer(t)
		watching, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		// The first graph service is killed while the watch reads the objects and the
		// consumer is paused.
		paused, resume := i.pause(1 + random.IntN(objects-500))
		go func() {
			defer close(done)
			i.run(watching, app)
		}()
		testkit.Receive(t, ctx, "the consumer to pause", paused)
		if random.IntN(2) == 0 {
			change(ctx)
		}
		graph.kill()
		graph = begin()
		change(ctx)
		resume()
		paused, resume = i.pause(1 + random.IntN(200))
		list := listed(ctx, t, app)
		testkit.WaitFor(t, ctx, fmt.Sprintf("round %d: the consumer to pause again, or to have all", round), func() bool {
			select {
			case <-paused:
				return true
			default:
				return i.agrees(list)
			}
		})
		graph.kill() // while the watch reads objects or follows changes
		graph = begin()
		change(ctx)
		resume()
		list = listed(ctx, t, app)
		testkit.WaitFor(t, ctx, fmt.Sprintf("round %d: the cache to be what a list returns", round), func() bool { return i.agrees(list) })
		change(ctx)
		list = listed(ctx, t, app)
		testkit.WaitFor(t, ctx, fmt.Sprintf("round %d: the changes that follow", round), func() bool { return i.agrees(list) })
		stop()
		testkit.Receive(t, ctx, "the end of the watch", done)
	}
}

// valueOf fails the test if there is an error.
func valueOf[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must.Succeed(t, err)
		return v
	}
}
