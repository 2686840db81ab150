package mirror

import (
	"sync"
	"testing"
	"time"
)

// A rate is that of the last ten seconds, and of what was merged into it.
func TestRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var r, o rate
	for range 20 {
		r.add(now)
	}
	now = now.Add(9 * time.Second)
	for range 10 {
		o.add(now)
	}
	r.merge(&o, now)
	for _, step := range []struct {
		advance time.Duration
		want    float64
	}{{0, 3}, {time.Second, 1}, {9 * time.Second, 0}, {time.Hour, 0}} {
		now = now.Add(step.advance)
		if got := r.perSecond(now, time.Minute); got != step.want {
			t.Errorf("%v later: %v, want %v", step.advance, got, step.want)
		}
	}
}

// Readers and the writer of a mirror work at the same time; the race detector sees what is not locked.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	m := New(time.Now)
	watch := m.Watch()
	defer watch.Close()
	var all []Change
	for c := range deployed(2000) {
		all = append(all, c)
	}
	root := all[0].Object.GetMetadata().GetUid()
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				m.Search("web", 10)
				m.Family(root, 0, 10)
				m.Deletions(10)
				m.Finalizers(10)
				w := m.Watch(root)
				m.State(root)
				w.Close()
			}
		})
	}
	for i := range all {
		m.Apply(all[i])
	}
	for _, c := range all[:1000] {
		c.Op = Remove
		m.Apply(c)
	}
	close(done)
	readers.Wait()
	select {
	case <-watch.C:
	default:
		t.Error("no change was reported")
	}
	if got := m.Objects(); got != 1000 {
		t.Errorf("%d objects, want 1000", got)
	}
}

// A chain of owners is counted in a time that does not grow with the square of its length, in whatever order it is read
// and removed.
func TestLongChain(t *testing.T) {
	t.Parallel()
	const n = 50_000
	m := New(time.Now)
	chain := chained(n)
	m.Apply(chain...)
	m.Apply(Change{Op: Synced})
	uid := func(i int) string { return chain[i].Object.GetMetadata().GetUid() }
	for i := range n {
		if f, _ := m.Family(uid(i), 0, 1); f.Self.Below != uint64(n-1-i) {
			t.Fatalf("%d objects are below object %d of %d", f.Self.Below, i, n)
		}
	}
	for i := n - 1; i > 0; i-- {
		m.Apply(Change{Op: Remove, Object: chain[i].Object})
		if f, _ := m.Family(uid(0), 0, 1); f.Self.Below != uint64(i-1) {
			t.Fatalf("%d objects are below the first after the removal of object %d", f.Self.Below, i)
		}
	}
}
