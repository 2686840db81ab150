package client_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// large is an object of so many bytes.
func large(name, text string, bytes int) *coppicev1.Object {
	spec := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat(text, bytes/len(text)))
	return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: spec}
}

// mirror is a cache of what a watch delivers: revisions by name.
type mirror struct {
	mu       sync.Mutex
	revision map[string]uint64
	synced   bool
}

func (m *mirror) apply(e client.WatchEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch meta := e.Object.GetMetadata(); {
	case e.Object == nil:
		m.synced = m.synced || e.Synced
	case e.Type == client.Deleted:
		delete(m.revision, meta.GetName())
	default:
		m.revision[meta.GetName()] = meta.GetResourceVersion()
	}
}

func (m *mirror) agrees(s *shop, objects client.ResourceClient) bool {
	list := map[string]uint64{}
	for o, err := range objects.List(s.Ctx) {
		must.Succeed(s.TB, err)
		list[o.GetMetadata().GetName()] = o.GetMetadata().GetResourceVersion()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced && maps.Equal(list, m.revision)
}

// A consumer that pauses does not make the server or its own process use more memory than
// the bounds, and receives everything in the end: if it pauses while 24 MiB of objects
// are read, and if it pauses while they change by more than the server keeps.
func TestWatchWithSlowConsumer(t *testing.T) {
	t.Parallel()
	const n = 24
	s := start(t)
	objects := s.objects
	for i := range n {
		s.Create(configMaps, "shop", large(fmt.Sprintf("c-%02d", i), "before", 1<<20))
	}
	update := func() {
		t.Helper()
		for i := range n {
			if _, err := objects.Update(s.Ctx, large(fmt.Sprintf("c-%02d", i), "after", 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := &mirror{revision: map[string]uint64{}}
	events := make(chan struct{})
	ctx, stop := context.WithCancel(s.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range objects.Watch(ctx) {
			if err != nil {
				t.Errorf("the watch ended: %v", err)
				return
			}
			m.apply(e)
			if e.Object != nil {
				select {
				case events <- struct{}{}:
				case <-ctx.Done():
				}
			}
		}
	}()
	testkit.Receive(t, s.Ctx, "the first object", events)
	update() // while it reads the objects
	s.delete("c-20")
	going, pause := context.WithCancel(s.Ctx)
	drain := func(ctx context.Context) {
		for ctx.Err() == nil {
			select {
			case <-events:
			case <-ctx.Done():
			}
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain(going)
	}()
	s.WaitFor("the consumer to have all", func() bool { return m.agrees(s, objects) })
	pause()
	testkit.Receive(t, s.Ctx, "the consumer to pause", drained)
	s.create("c-20")
	update() // while it follows the changes
	s.delete("c-21")
	go drain(ctx)
	s.WaitFor("the consumer to have all again", func() bool { return m.agrees(s, objects) })
	stop()
	testkit.Receive(t, s.Ctx, "the end of the watch", done)
}

// Many watches that begin at once take little more memory than a few: 100 of 16 MiB
// of objects are 1.6 GiB on each side, if all of it is in flight at once.
func TestManyWatchesBegin(t *testing.T) {
	const (
		watches = 100
		objects = 16
		bound   = 1 << 30
	)
	s := start(t)
	c := client.New(s.Conn(), client.WithActor("many"))
	for i := range objects {
		if _, err := c.Resource(configMaps, "shop").Create(s.Ctx, large(fmt.Sprintf("c-%02d", i), "text", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(s.Ctx)
	var wg sync.WaitGroup
	synced := make(chan int, watches)
	for range watches {
		wg.Go(func() {
			found := 0
			for e, err := range c.Resource(configMaps, "shop").Watch(ctx) {
				switch {
				case err != nil:
					t.Errorf("a watch ended: %v", err)
					return
				case e.Synced:
					synced <- found
				case e.Object != nil:
					found++
				}
			}
		})
	}
	most := uint64(0)
	for range watches {
		if found := testkit.Receive(t, s.Ctx, "a watch to have all objects", synced); found != objects {
			t.Errorf("a watch has %d objects, want %d", found, objects)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	t.Logf("at most %d MiB of heap", most>>20)
	if most > bound {
		t.Errorf("%d MiB of heap, want at most %d", most>>20, bound>>20)
	}
	stop()
	wg.Wait()
}
