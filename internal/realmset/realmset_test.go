package realmset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/realmset"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// realms are the list of realms with which the test answers, and the realms in which work is done.
type realms struct {
	mu      sync.Mutex
	version int
	names   []string
	working []string
	removed []string
}

func (b *realms) set(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	b.names = names
}

func (b *realms) is(want ...string) func() bool {
	return func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Equal(slices.Sorted(slices.Values(b.working)), want)
	}
}

func (b *realms) work(ctx context.Context, realm string) error {
	b.mu.Lock()
	b.working = append(b.working, realm)
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.working = slices.DeleteFunc(b.working, func(r string) bool { return r == realm })
	return nil
}

func (b *realms) ended(realm string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.working, realm) {
		panic("the work has not ended")
	}
	b.removed = append(b.removed, realm)
}

// A service works in the realms that it was started with until it has the list, then in
// those of the list. Without a reply it works on.
func TestFollow(t *testing.T) {
	t.Parallel()
	r := testkit.NewRealm(t)
	b := &realms{}
	c := realmset.Config{Conn: r.Conn(bus.RoleProcessor), Realms: []string{"default"}, Work: b.work, Ended: b.ended, Interval: time.Millisecond}
	s := testkit.Run(t, func(ctx context.Context) error { return realmset.Run(ctx, c) })
	r.WaitFor("work in the first realm", b.is("default"))
	b.set("default", "shop")
	graph := r.Conn(bus.RoleAnswers)
	serve := func() (stop func()) {
		return testkit.Answer(t, graph, bus.InternalSubject(bus.SystemRealm, bus.OpRealms), &coppicev1.RealmsRequest{},
			func(q *coppicev1.RealmsRequest) (*coppicev1.RealmsReply, *lifecycle.Error) {
				b.mu.Lock()
				defer b.mu.Unlock()
				reply := &coppicev1.RealmsReply{Version: fmt.Sprint(b.version)}
				if q.GetVersion() != reply.GetVersion() {
					reply.Names = b.names
				}
				return reply, nil
			})
	}
	away := serve()
	r.WaitFor("work in the realm that was created", b.is("default", "shop"))
	b.set("shop")
	r.WaitFor("the end of the work in the realm that was deleted", b.is("shop"))
	away()
	b.set()
	if !b.is("shop")() {
		t.Error("the work has ended while no graph service replied")
	}
	b.set("blog", "shop")
	serve()
	r.WaitFor("work in one realm more", b.is("blog", "shop"))
	s.Stop()
	if !b.is()() {
		t.Error("work goes on after Run has returned")
	}
	if fmt.Sprint(b.removed) != "[default]" {
		t.Errorf("removed: %v", b.removed)
	}
}

// Work that fails ends the service, with the work in all other realms.
func TestFailure(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	b := &realms{}
	broken := errors.New("broken")
	err := realmset.Run(ctx, realmset.Config{
		Conn: testkit.Conn(t, testkit.NATS(t), bus.RoleProcessor), Realms: []string{"default", "shop"},
		Work: func(ctx context.Context, realm string) error {
			if realm == "shop" {
				return broken
			}
			return b.work(ctx, realm)
		},
	})
	if !errors.Is(err, broken) || !b.is()() {
		t.Errorf("%v; still working in %v", err, b.working)
	}
}
