package graph

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/past"
)

// A process that cannot know the protected objects of a realm does not let it be deleted while
// another one may know them.
func TestDeletionOfUnservedRealm(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	n := testkit.NATS(t)
	const lasting = 30 * time.Second // the leases are not lost on a busy machine
	s, err := New(Config{
		Secrets: testkit.Secrets(), Conn: testkit.Conn(t, n, bus.RoleGraph), Answers: testkit.Conn(t, n, bus.RoleAnswers), Dir: t.TempDir(), LeaseTTL: lasting,
	})
	must.Succeed(t, err)
	const name = "other"
	refused := func(says string) {
		t.Helper()
		var e *lifecycle.Error
		if err := s.checkProtected(ctx, name); !errors.As(err, &e) || e.Reason != api.ErrServiceUnavailable || e.RetryAfter == 0 || !strings.Contains(e.Message, says) {
			t.Errorf("%v, want a refusal that says %q", err, says)
		}
	}
	allowed := func(what string) {
		t.Helper()
		if err := s.checkProtected(ctx, name); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	allowed("a realm that is not in the list")
	if _, err := s.registry.Create(ctx, name, "test", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	refused("this graph service does not serve the realm yet")
	r := s.newRealm(name)
	s.realms[name] = r
	refused("this graph service does not serve the realm yet")
	failure := errors.New("the disk is damaged")
	r.failed.Store(&failure)
	allowed("a realm that has failed, and that no process writes")

	other := lease.New(testkit.JetStream(t, n, bus.RoleGraph), lease.Config{ID: "other", Name: "node-2", TTL: lasting})
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	ended.Go(func() { s.member.Run(running) })
	ended.Go(func() { other.Run(running) })
	l, err := other.Acquire(ctx, name, lease.Options{})
	must.Succeed(t, err)
	testkit.WaitFor(t, ctx, "the writer to be seen", func() bool { return s.member.Writers()[name] != "" })
	refused("the graph service node-2 writes it")
	must.Succeed(t, l.Release(ctx))
	testkit.WaitFor(t, ctx, "the writer to be gone", func() bool { return s.member.Writers()[name] == "" })
	allowed("a realm that has failed, and that no process writes any more")
}

// A realm that does not stop delays no other, and is not started again before it has stopped.
func TestRealmThatDoesNotStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(testkit.Context(t))
	n := testkit.NATS(t)
	s, err := New(Config{
		Secrets: testkit.Secrets(), Conn: testkit.Conn(t, n, bus.RoleGraph), Answers: testkit.Conn(t, n, bus.RoleAnswers), Dir: t.TempDir(), LeaseTTL: 30 * time.Second,
	})
	must.Succeed(t, err)
	states, err := past.NewCache(filepath.Join(s.c.Dir, pastDir), s.c.Past)
	must.Succeed(t, err)
	s.states.Store(states)
	var g errgroup.Group
	defer func() {
		stop()
		if err := errors.Join(g.Wait(), states.Close()); err != nil {
			t.Error(err)
		}
	}()
	g.Go(func() error { s.member.Run(ctx); return nil })
	const hangs, other = "hangs", "other"
	for _, name := range []string{hangs, other} {
		if _, err := s.registry.Create(ctx, name, "test", "", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	r := s.newRealm(hangs)
	canceled := 0
	r.cancel, r.ended = func() { canceled++ }, make(chan struct{})
	s.realms[hangs] = r
	runs := s.newRealm(other)
	runs.cancel, runs.ended = func() { t.Error("the other realm was stopped") }, make(chan struct{})
	s.realms[other] = runs
	version := ""
	follows := func() bool {
		t.Helper()
		list, err := s.registry.List(ctx)
		must.Succeed(t, err)
		changed := list.Version != version
		version = list.Version
		return s.follow(ctx, &g, list, changed)
	}
	if _, err := s.registry.Delete(ctx, hangs, "test", true, time.Now()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if follows() || canceled != 1 || s.realms[hangs] != nil || s.realms[other] == nil || s.realms[other].cancel == nil || s.deleting[hangs] {
			t.Fatalf("canceled %d times; the realms are %v, of which are being deleted: %v", canceled, s.realms, s.deleting)
		}
	}
	s.stopping[hangs].since = time.Now().Add(-2 * slowStop)
	follows()
	list, err := s.registry.List(ctx)
	if err != nil || !strings.Contains(list.Of(hangs).GetWaiting(), "has not ended the realm") {
		t.Errorf("the list does not say what the deletion waits for: %v, %v", list.Of(hangs), err)
	}
	must.Succeed(t, errors.Join(s.registry.Deleting(ctx, hangs, nil), s.registry.Deleted(ctx, hangs)))
	if _, err := s.registry.Create(ctx, hangs, "test", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	if follows() || s.realms[hangs] != nil {
		t.Errorf("the realm was started before it had ended")
	}
	close(r.ended)
	if ended := s.ended(ctx); !ended[hangs] || len(s.stopping) > 0 {
		t.Errorf("ended: %v; still stopping: %v", ended, s.stopping)
	}
}

// While the copies that were not read are on servers that are offline, no consumer is created.
func TestCopiesOfOfflineServers(t *testing.T) {
	t.Parallel()
	c := &copyCheck{r: &following{withLog: &withLog{realm: &realm{c: &Config{ScrubLog: time.Hour}}}}}
	all := []string{"a", "b", "c"}
	for _, step := range []struct {
		what           string
		unread         []string
		names, offline []string
		want           int
	}{
		{"a new round", nil, all, nil, openAttempts},
		{"an unread copy is online", []string{"b", "c"}, all, []string{"c"}, openAttempts},
		{"all unread copies are offline", []string{"c"}, all, []string{"c"}, 0},
		{"the server is back", []string{"c"}, all, nil, openAttempts},
		{"the server was removed", []string{"c"}, all[:2], nil, openAttempts},
	} {
		c.unread = step.unread
		if got := c.attempts(step.names, step.offline); got != step.want {
			t.Errorf("%s: %d consumers, want %d", step.what, got, step.want)
		}
	}
	c.ends = copyEnds{"b": {at: 1}, "c": {at: 1}}
	c.unread, c.begun = []string{"c"}, time.Now().Add(-2*time.Hour)
	if got := c.attempts(all, []string{"c"}); got != openAttempts || len(c.unread) != 3 {
		t.Errorf("after the time of a round: %d consumers, unread %v; want a new round", got, c.unread)
	}
	if len(c.ends) != 1 || c.ends["b"].at != 1 {
		t.Errorf("the ends of copies are %v; want that of the server which is offline forgotten", c.ends)
	}
}

// A copy that ends at the same sequence after a while is damaged; one that grows only lags behind.
func TestStuckCopy(t *testing.T) {
	t.Parallel()
	ends, begun := copyEnds{}, time.Now()
	for _, step := range []struct {
		server string
		at     uint64
		after  time.Duration
		stuck  bool
	}{
		{"a", 10, 0, false},
		{"a", 10, copyStuck - 1, false},
		{"b", 10, copyStuck, false},
		{"a", 11, copyStuck, false}, // it has come further
		{"a", 11, 2*copyStuck - 1, false},
		{"a", 11, 2 * copyStuck, true},
		{"a", 11, 3 * copyStuck, false}, // that was reported, and it may be another copy
		{"b", 10, 2 * copyStuck, true},
		{"c", 3, 0, false},
		{"c", 3, time.Hour, true}, // it is read from its beginning each time, which may take long
	} {
		damage := ends.stuck(step.server, step.at, begun.Add(step.after))
		if (damage != nil) != step.stuck || step.stuck && damage.Position != step.at+1 {
			t.Errorf("%s at %d after %v: %v, want damage: %t", step.server, step.at, step.after, damage, step.stuck)
		}
	}
}

// A copy that has had too few messages for a while is damaged, unless its server is catching up, or the
// log has been cut.
func TestShortages(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	list := shortages{}
	for _, step := range []struct {
		what            string
		server          string
		extent          eventlog.Extent
		begins          uint64
		first, messages uint64
		after           time.Duration
		lacks           uint64
	}{
		{"complete", "a", eventlog.Extent{Last: 10}, 1, 1, 10, 0, 0},
		{"complete, and messages were appended", "a", eventlog.Extent{Last: 10}, 1, 1, 12, copyStuck, 0},
		{"empty", "a", eventlog.Extent{}, 1, 1, 0, 2 * copyStuck, 0},
		{"short", "b", eventlog.Extent{Last: 10}, 1, 1, 7, 0, 0},
		{"short for a moment", "b", eventlog.Extent{Last: 10}, 1, 1, 7, copyStuck - 1, 0},
		{"short for a while, and messages were appended", "b", eventlog.Extent{Last: 11}, 1, 1, 9, copyStuck, 2},
		{"copied again", "b", eventlog.Extent{Last: 11}, 1, 1, 11, 2 * copyStuck, 0},
		{"without its beginning", "c", eventlog.Extent{Last: 10}, 1, 4, 7, 0, 0},
		{"without its beginning for a while", "c", eventlog.Extent{Last: 10}, 1, 4, 7, copyStuck, 3},
		{"cut", "c", eventlog.Extent{Last: 10}, 4, 4, 7, 2 * copyStuck, 0},
		{"with gaps that the leader has too", "d", eventlog.Extent{Last: 10, Gaps: 2}, 1, 1, 8, 0, 0},
		{"with gaps that the leader has too, later", "d", eventlog.Extent{Last: 10, Gaps: 2}, 1, 1, 8, copyStuck, 0},
	} {
		damage := list.lacks(step.server, &step.extent, step.begins, step.first, step.messages, begun.Add(step.after))
		if (damage != nil) != (step.lacks > 0) || list.missed() != step.lacks {
			t.Errorf("%s: %v, %d missed; want %d", step.what, damage, list.missed(), step.lacks)
		}
		if damage != nil && !strings.Contains(damage.Error(), "NATS server "+step.server+" lacks messages") {
			t.Errorf("%s: %v", step.what, damage)
		}
	}
	list.lacks("e", &eventlog.Extent{Last: 2}, 1, 1, 1, begun)
	list.keep([]string{"a"})
	if damage := list.lacks("e", &eventlog.Extent{Last: 2}, 1, 1, 1, begun.Add(copyStuck)); damage != nil {
		t.Errorf("a server that was catching up meanwhile: %v", damage)
	}
}
