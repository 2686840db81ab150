package lease_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

// Members share the realms evenly, whether one joins, ends or is cut off: the numbers of any
// two differ by at most one. Each realm has at most one writer at a time, and a single
// key is renewed for all.
func TestShares(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	w := &writers{t: t, ctx: testkit.Context(t), server: server, config: func(id string) lease.Config { return config(id, time.Second) }, of: map[string]writer{}}
	a := w.join("a")
	w.shares(map[string][]int{"a": {20}})
	w.join("b")
	w.shares(map[string][]int{"a": {10}, "b": {10}})
	c := w.join("c")
	w.shares(map[string][]int{"a": {6, 7}, "b": {6, 7}, "c": {6, 7}})
	a.end()
	w.shares(map[string][]int{"b": {10}, "c": {10}})
	c.cut()
	w.shares(map[string][]int{"b": {20}})
}

// writers are processes that write realms.
type writers struct {
	t      *testing.T
	ctx    context.Context
	server *natsd.Server
	config func(id string) lease.Config

	mu sync.Mutex
	of map[string]writer // by realm
}

// writer is a process that writes a realm.
type writer struct {
	id    string
	lease *lease.Lease
}

// writing is a process that writes those realms whose leases it has.
type writing struct {
	*process
	close func() // the connection
	end   func() // releases all leases, and ends
}

func (p *writing) cut() { p.close() }

func (w *writers) join(id string) *writing {
	w.t.Helper()
	nc := testkit.Conn(w.t, w.server, bus.RoleGraph)
	js, err := jetstream.New(nc)
	must.Succeed(w.t, err)
	p := &writing{process: run(w.t, js, w.config(id)), close: nc.Close}
	ctx, cancel := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { w.write(ctx, p.Member, id, fmt.Sprintf("realm-%d", i)) })
	}
	p.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		p.stop()
	})
	w.t.Cleanup(p.end)
	return p
}

// write writes a realm whenever it has the lease, until ctx ends.
func (w *writers) write(ctx context.Context, m *lease.Member, id, realm string) {
	for ctx.Err() == nil {
		l, err := m.Acquire(ctx, realm, lease.Options{})
		if err != nil {
			return
		}
		w.mu.Lock()
		// One that has just lost its lease may not have run since.
		other, ok := w.of[realm]
		held := ok && other.lease.Holds()
		if !l.Holds() { // another may have taken it over, and be registered
			w.mu.Unlock()
			_ = l.Release(context.WithoutCancel(ctx))
			continue
		}
		if held {
			w.t.Errorf("%s is written by %s and %s", realm, other.id, id)
		}
		w.of[realm] = writer{id, l}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-l.Leave():
		case <-l.Lost():
		}
		w.mu.Lock()
		if w.of[realm].lease == l {
			delete(w.of, realm)
		}
		w.mu.Unlock()
		_ = l.Release(context.WithoutCancel(ctx))
	}
}

// shares waits until each process has one of the numbers of realms.
func (w *writers) shares(want map[string][]int) {
	w.t.Helper()
	testkit.WaitFor(w.t, w.ctx, fmt.Sprintf("the shares to be %v", want), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		has := map[string]int{}
		for _, writer := range w.of {
			has[writer.id]++
		}
		sum := 0
		for id, n := range has {
			if !slices.Contains(want[id], n) {
				return false
			}
			sum += n
		}
		return sum == 20 && len(has) == len(want)
	})
}

// A member that is not ready gets no realms from others.
func TestNotReady(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	var clock timer
	w := &writers{t: t, ctx: testkit.Context(t), server: server, config: clock.config, of: map[string]writer{}}
	w.join("a")
	w.shares(map[string][]int{"a": {20}})
	var ready atomic.Bool
	js := testkit.JetStream(t, server, bus.RoleGraph)
	c := clock.config("b")
	c.Ready = ready.Load
	run(t, js, c)
	clock.never(t, js, "a realm was given to a member that is not ready", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.of) != 20
	}, nil, "a", "b")
	w.mu.Lock()
	defer w.mu.Unlock()
	if names := slices.Sorted(maps.Keys(w.of)); strings.Join(names[:2], " ") != "realm-0 realm-1" {
		t.Errorf("the realms are %v", names)
	}
}
