package propagator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// running is a propagator that runs.
type running struct {
	t     *testing.T
	ctx   context.Context
	realm *statetest.Realm
	js    *published
	last  string // that was published
}

// run runs a propagator until the test has ended. Its clock goes, and is ahead
// of the realm's.
func run(t *testing.T, realm *statetest.Realm, ahead time.Duration, change ...func(*propagator.Config)) *running {
	t.Helper()
	r := &running{t: t, ctx: testkit.Context(t), realm: realm, js: &published{}}
	begun, start := time.Now(), realm.Clock.Time().Add(ahead)
	c := propagator.Config{
		Realm: bus.DefaultRealm, State: realm.State, JS: r.js,
		Parked: func(context.Context, string) (bool, error) { return false, nil },
		Now:    func() time.Time { return start.Add(time.Since(begun)) },
	}
	for _, f := range change {
		f(&c)
	}
	p := propagator.New(c)
	realm.Applied = func(_ uint64, _ []state.Change, rows []state.WorkChange) { p.Notify(rows) }
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	return r
}

// next waits for this message, and returns it. Only the message before it may come
// again: of a row that the first round reads, and that Notify adds.
func (r *running) next(want string) work {
	r.t.Helper()
	var found work
	testkit.WaitFor(r.t, r.ctx, want, func() bool {
		for _, m := range r.js.take() {
			switch w := read(r.t, m); {
			case w.text == want:
				found, r.last = w, want
			case w.text != r.last:
				r.t.Errorf("published %q, want %q", w.text, want)
			}
		}
		return found.text != ""
	})
	return found
}

// Notify alone drives a cascade to its end, level by level.
func TestRun(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	realm.Create("deployments/web", nil)
	owner := "deployments/web"
	for _, name := range []string{"replicasets/a", "replicasets/b", "replicasets/c"} {
		realm.Create(name, &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{realm.Reference(owner, true)}})
		owner = name
	}
	r := run(t, realm, 0)
	realm.Delete("deployments/web", lifecycle.Background)
	for _, want := range []string{"dirty: [a] of web@105", "dirty: [b] of a@106", "dirty: [c] of b@107"} {
		r.next(want).do(realm)
	}
}

// Rows that become due later are published then, without a further commit.
func TestDue(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	realm.Import("pods/a", &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{
		{ApiVersion: "apps/v1", Kind: "Deployment", Name: "web", Uid: "web"},
	}})
	const early = 100 * time.Millisecond
	begun := time.Now()
	r := run(t, realm, lifecycle.DefaultSettings().OwnerGrace-early)
	r.next("dirty: [a] of web@101")
	if after := time.Since(begun); after < early {
		t.Errorf("published after %v, before it was due", after)
	}
}

// Dependents that a walk finds not to be due yet are published when they are.
func TestDueInWalk(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	dependent := func() *coppicev1.ObjectMeta {
		return &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{
			{ApiVersion: "apps/v1", Kind: "Deployment", Name: "web", Uid: "web"},
		}}
	}
	const many, between = 200, 500 * time.Millisecond // more than are read from one snapshot
	for i := range many {
		if i == many/2 {
			realm.Clock = realm.Clock.Add(between)
		}
		realm.Import(fmt.Sprintf("pods/p-%03d", i), dependent())
	}
	r := run(t, realm, lifecycle.DefaultSettings().OwnerGrace-between/2, func(c *propagator.Config) { c.ChunkSize = 10 })
	found := map[uid.UID]bool{}
	testkit.WaitFor(t, r.ctx, "all dependents to be published", func() bool {
		for _, m := range r.js.take() {
			var c coppicev1.DirtyChunk
			decode(t, m, &c)
			for _, g := range c.GetGroups() {
				for _, u := range unpack(t, g.GetDependents()) {
					found[u] = true
				}
			}
		}
		return len(found) == many
	})
}

// If the stream does not exist for some time, work is delayed and not lost.
func TestStreamAway(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	realm.Create("deployments/web", nil)
	realm.Create("pods/a", &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{realm.Reference("deployments/web", true)}})
	r := run(t, realm, 0)
	r.js.refusing(jetstream.ErrStreamNotFound, 2)
	realm.Delete("deployments/web", lifecycle.Background)
	r.next("dirty: [a] of web@103")
}

// A call whose acknowledgement is lost may not be stored, and is published again.
func TestCallInDoubt(t *testing.T) {
	t.Parallel()
	realm := statetest.New(t)
	realm.Create("pods/a", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	r := run(t, realm, 0)
	r.js.refusing(nats.ErrTimeout, 1)
	realm.Delete("pods/a", lifecycle.Background)
	r.next("call example.com/x: pods/a@102")
}
