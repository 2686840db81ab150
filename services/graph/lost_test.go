package graph_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// lostTail returns the directories of a NATS server and of a graph service whose log has
// lost its newest commits. The state is as a crash leaves it: it ends before the loss.
func lostTail(t *testing.T) (server, dir string, seen tail.Mark) {
	t.Helper()
	server, dir = t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	olderServer, olderDir := copyOf(t, server), copyOf(t, dir)
	run(t, server, dir, creating(t, "two", "three"))
	file := tail.File(dir, realm)
	seen, err := tail.Read(file)
	if err != nil || seen.Sequence != checkpoint(t, dir).GetSequence() {
		t.Fatalf("after a stop the mark is %+v, %v; the state is at %v", seen, err, checkpoint(t, dir))
	}
	mark, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(tail.File(olderDir, realm), mark, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return olderServer, olderDir, seen
}

// realmEvents returns what the log records about the realm.
func realmEvents(ctx context.Context, t *testing.T, n *natsd.Server) (events []client.LogEvent) {
	t.Helper()
	operator := client.New(testkit.Conn(t, n, bus.RoleOperator), client.WithActor(bus.RoleOperator), client.WithRealm(realm))
	for c, err := range operator.Log().Read(ctx, client.FromSequence(1)) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, client.RealmEvents(c.Commit)...)
	}
	return events
}

// A log that has lost acknowledged commits which the state does not have either is
// refused. When an operator accepts the loss, the realm goes on, and the log records it.
func TestLostTail(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server, dir, seen := lostTail(t)
	n := testkit.StartNATS(t, natsd.Config{Dir: server})
	end := lastOf(t, testkit.JetStream(t, n, bus.RoleGraph))
	want := []string{
		"realm " + realm, fmt.Sprintf("ends at sequence %d", end), fmt.Sprintf("commit %d", seen.Sequence),
		"Restore the log", fmt.Sprintf("--accept-loss %s@%d", realm, seen.Sequence),
	}
	refused := func(what string, err error) {
		t.Helper()
		var lost *replay.MismatchError
		if !errors.As(err, &lost) {
			t.Fatalf("%s: %v", what, err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", what, err, w)
			}
		}
		if is := lastOf(t, testkit.JetStream(t, n, bus.RoleGraph)); is != end {
			t.Fatalf("%s: the log ends at %d, and ended at %d", what, is, end)
		}
	}
	accepting := func(sequence uint64) func(*graph.Config) {
		return func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: sequence} }
	}
	refused("a start", serve(t, graphConn(t, n), dir, nil).wait(ctx))
	refused("acceptance of another loss", serve(t, graphConn(t, n), dir, accepting(seen.Sequence-1)).wait(ctx))
	_, err := replay.Rebuild(ctx, testkit.Conn(t, n, bus.RoleGraph), realm, dir, testkit.Secrets())
	refused("a rebuild", err)

	s := serve(t, graphConn(t, n), dir, accepting(seen.Sequence)).writing(ctx)
	c := application(t, n)
	has(ctx, t, c, "one")
	o, err := c.Resource(configMaps, "a").Create(ctx, configMap("behind"))
	if err != nil {
		t.Fatal(err)
	}
	if o.GetMetadata().GetResourceVersion() <= seen.Revision {
		t.Errorf("the revision %d was used before the loss, up to %d", o.GetMetadata().GetResourceVersion(), seen.Revision)
	}
	if d := verify(ctx, t, n).GetDifference(); d != "" {
		t.Errorf("the state differs from the log: %s", d)
	}
	events := realmEvents(ctx, t, n)
	if len(events) != 1 {
		t.Fatalf("the log records %+v about the realm", events)
	}
	of := events[0]
	if of.Type != "LossAccepted" || of.Actor != "graph" || of.Verb != bus.VerbAcceptLoss || of.Time.IsZero() || of.Revision != 0 {
		t.Errorf("the log records %+v", of)
	}
	for _, what := range []string{fmt.Sprintf("ends at sequence %d", end), fmt.Sprintf("commit %d", seen.Sequence), fmt.Sprintf("; revisions continue at %d", o.GetMetadata().GetResourceVersion())} {
		if !strings.Contains(of.Detail, what) {
			t.Errorf("the detail %q does not say %q", of.Detail, what)
		}
	}
	s.stop(ctx)
	serve(t, graphConn(t, n), dir, nil).writing(ctx).stop(ctx)
	run := serve(t, graphConn(t, n), t.TempDir(), nil).writing(ctx) // a replica that folds the whole log
	has(ctx, t, c, "behind", "one")
	run.stop(ctx)
}

// A state that has the lost commits is set aside, and rebuilt from the log.
func TestLostTailWithState(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	older := copyOf(t, server)
	run(t, server, dir, creating(t, "two"))
	seen := checkpoint(t, dir)
	n := testkit.StartNATS(t, natsd.Config{Dir: older})
	s := serve(t, graphConn(t, n), dir, func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: seen.GetSequence()} }).writing(ctx)
	has(ctx, t, application(t, n), "one")
	s.stop(ctx)
	if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf(".lost-%s-%d", realm, seen.GetSequence()))); err != nil {
		t.Errorf("the state with the lost commits: %v", err)
	}
}

// A mark that is damaged is replaced; the state is compared with the log nevertheless.
func TestDamagedMark(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	file := tail.File(dir, realm)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tail.Read(file); !errors.Is(err, tail.ErrDamaged) {
		t.Fatalf("read: %v", err)
	}
	n := testkit.StartNATS(t, natsd.Config{Dir: server})
	serve(t, graphConn(t, n), dir, nil).writing(ctx).stop(ctx)
	if m, err := tail.Read(file); err != nil || m != tail.Of(checkpoint(t, dir)) {
		t.Errorf("the mark is %+v, %v", m, err)
	}
}

// A realm whose log is purged while it runs acknowledges nothing more. Readiness says why, and so does the next
// start, until an operator accepts the loss.
func TestPurgedLog(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]bool{"a command follows": false, "nothing follows": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			dir := t.TempDir()
			n := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(realm, "other")})
			s := serve(t, graphConn(t, n), dir, func(c *graph.Config) {
				c.Realms, c.CheckLog = []string{realm, "other"}, time.Hour
				if idle {
					c.CheckLog = time.Millisecond
				}
			}).writing(ctx)
			c := application(t, n)
			create(ctx, t, c, "one")
			js := testkit.JetStream(t, n, bus.RoleGraph)
			stream, err := js.Stream(ctx, bus.LogStream(realm))
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Purge(ctx); err != nil {
				t.Fatal(err)
			}
			end := lastOf(t, js)
			acknowledged := make(chan bool, 1)
			requesting, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				if idle {
					<-requesting.Done()
				}
				_, err := c.Resource(configMaps, "a").Create(requesting, configMap("lost"))
				acknowledged <- err == nil
			}()
			accept := fmt.Sprintf("--accept-loss %s@%d", realm, end)
			refused := func(s *service) bool {
				err := s.Ready()
				return err != nil && strings.Contains(err.Error(), "realm "+realm) && strings.Contains(err.Error(), "are missing") && strings.Contains(err.Error(), accept)
			}
			testkit.WaitFor(t, ctx, "the service not to be ready", func() bool { return refused(s) })
			cancel()
			if testkit.Receive(t, ctx, "the end of the command", acknowledged) {
				t.Error("a command is acknowledged")
			}
			if !strings.Contains(s.Status(), "realm other: writer") {
				t.Errorf("the other realm: %s", s.Status())
			}
			if is := lastOf(t, js); is != end {
				t.Errorf("the log ends at %d, and ended at %d", is, end)
			}
			s.stop(ctx)
			s = serve(t, graphConn(t, n), dir, nil)
			testkit.WaitFor(t, ctx, "the next start to be refused", func() bool { return refused(s) })
			s.stop(ctx)
			s = serve(t, graphConn(t, n), dir, func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: uint64(end)} }).writing(ctx)
			create(ctx, t, c, "two")
			has(ctx, t, c, "one", "two")
			s.stop(ctx)
		})
	}
}

// A standby that has not followed the newest commit itself, since it has just started, does not append to a log that
// was purged.
func TestPurgedBeforeTakeOver(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	n := testkit.NATS(t)
	seldom := func(c *graph.Config) { c.CheckLog = time.Hour }
	dir := t.TempDir()
	s := serve(t, graphConn(t, n), t.TempDir(), seldom).writing(ctx)
	create(ctx, t, application(t, n), "one")
	js := testkit.JetStream(t, n, bus.RoleGraph)
	end := lastOf(t, js)
	for range 2 {
		standby := serve(t, graphConn(t, n), dir, seldom)
		testkit.WaitFor(t, ctx, "the standby to have caught up", func() bool { return standby.Ready() == nil })
		standby.stop(ctx)
	}
	if at := checkpoint(t, dir).GetPosition(); at != uint64(end) {
		t.Fatalf("the state of the standby ends at %d, and the log at %d", at, end)
	}
	standby := serve(t, graphConn(t, n), dir, seldom)
	testkit.WaitFor(t, ctx, "the standby to be ready", func() bool { return standby.Ready() == nil })
	stream, err := js.Stream(ctx, bus.LogStream(realm))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	s.cancel() // it may fail meanwhile
	testkit.Receive(t, ctx, "the end of the writer", s.ended)
	if err := standby.wait(ctx); err == nil || !strings.Contains(err.Error(), "are missing") {
		t.Errorf("the standby ended with %v", err)
	}
	if is := lastOf(t, js); is != end {
		t.Errorf("the log ends at %d, and ended at %d", is, end)
	}
}

// After a restore, commits that were lost are not put into the log again by
// a user who has copies of them, once there is a new key.
func TestLostCommitsStayLost(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	older := copyOf(t, server)
	var lost [][]byte
	run(t, server, dir, func(n *natsd.Server) {
		ctx := testkit.Context(t)
		a := newAttacker(ctx, t, n)
		from := a.last(ctx) + 1
		creating(t, "two", "three")(n)
		for at := from; at <= a.last(ctx); at++ {
			lost = append(lost, a.message(ctx, at))
		}
	})
	seen := checkpoint(t, dir).GetSequence()
	ctx := testkit.Context(t)
	n := testkit.StartNATS(t, natsd.Config{Dir: older})
	s := serve(t, graphConn(t, n), dir, func(c *graph.Config) {
		c.Secrets, c.AcceptLoss = testkit.Secrets().Draw(), map[string]uint64{realm: seen}
	}).writing(ctx)
	a := newAttacker(ctx, t, n)
	for _, m := range lost {
		a.publish(ctx, m)
	}
	c := application(t, n)
	create(ctx, t, c, "zero")
	has(ctx, t, c, "one", "zero")
	verified(ctx, t, n)
	events := realmEvents(ctx, t, n)
	if len(events) != 2 || events[0].Type != "LossAccepted" || events[1].Type != "KeyChanged" || !strings.HasPrefix(events[1].Detail, "key 2, fingerprint ") {
		t.Errorf("the log records %+v about the realm", events)
	}
	s.stop(ctx)
}

// Lost commits that are published again at their own positions do not fence the writer. Readers of the log
// skip them, as replicas do, wherever they begin.
func TestLostCommitsAtTheirPositions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		foreign int // messages in the log that is lost
		secrets secret.Secrets
	}{
		"under another key":     {0, testkit.Secrets().Draw()},
		"that precede the last": {9, testkit.Secrets()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lostAtTheirPositions(t, test.foreign, test.secrets)
		})
	}
}

func lostAtTheirPositions(t *testing.T, foreign int, secrets secret.Secrets) {
	t.Helper()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	older := copyOf(t, server)
	lost := map[uint64][]byte{} // by position
	run(t, server, dir, func(n *natsd.Server) {
		ctx := testkit.Context(t)
		a := newAttacker(ctx, t, n)
		for range foreign {
			a.publish(ctx, []byte("foreign"))
		}
		from := a.last(ctx) + 1
		for i := range 20 {
			creating(t, fmt.Sprintf("lost-%02d", i))(n)
		}
		for at := from; at <= a.last(ctx); at++ {
			lost[at] = a.message(ctx, at)
		}
	})
	seen := checkpoint(t, dir).GetSequence()
	ctx := testkit.Context(t)
	n := testkit.StartNATS(t, natsd.Config{Dir: older})
	s := serve(t, graphConn(t, n), dir, func(c *graph.Config) {
		c.Secrets, c.AcceptLoss = secrets, map[string]uint64{realm: seen}
	}).writing(ctx)
	a, c := newAttacker(ctx, t, n), application(t, n)
	epoch := func() uint64 {
		t.Helper()
		last := a.last(ctx)
		h, foreign := eventlog.NewKeys(secrets, realm).Check(eventlog.Message{Sequence: last, Data: a.message(ctx, last)})
		if foreign != "" {
			t.Fatal(foreign)
		}
		return h.Epoch
	}
	names := []string{"one"}
	for i := range foreign + 1 {
		names = append(names, fmt.Sprintf("before-%d", i))
	}
	create(ctx, t, c, names[1:]...)
	before := epoch()
	skipped := map[uint64]bool{}
	for i := range 4 {
		for range 2 {
			at := a.last(ctx) + 1
			if lost[at] == nil {
				t.Fatalf("nothing was lost at sequence %d", at)
			}
			a.publish(ctx, lost[at])
			skipped[at] = true
		}
		names = append(names, fmt.Sprintf("new-%d", i))
		create(ctx, t, c, names[len(names)-1])
	}
	slices.Sort(names)
	has(ctx, t, c, names...)
	operator := client.New(testkit.Conn(t, n, bus.RoleOperator), client.WithActor(bus.RoleOperator), client.WithRealm(realm))
	read := func(what string, from client.LogOption) (commits int) {
		t.Helper()
		for c, err := range operator.Log().Read(ctx, from) {
			if err != nil {
				t.Fatal(err)
			}
			if is := c.Skipped != ""; is != skipped[c.Sequence] {
				t.Errorf("%s: sequence %d, skipped %q", what, c.Sequence, c.Skipped)
			}
			if c.Skipped == "" {
				commits++
			}
		}
		return commits
	}
	end := a.last(ctx)
	all := read("from the beginning", client.FromSequence(1))
	if want := int(end) - len(skipped); all != want {
		t.Errorf("%d commits are read, want %d", all, want)
	}
	for at := uint64(2); at <= end; at++ {
		read(fmt.Sprint("from sequence ", at), client.FromSequence(at))
	}
	o, err := c.Resource(configMaps, "a").Get(ctx, "new-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := read("from a revision", client.FromRevision(o.GetMetadata().GetResourceVersion())); got != 3 {
		t.Errorf("%d commits are read from that of new-1 on, want 3", got)
	}
	verified(ctx, t, n)
	if is := epoch(); is != before {
		t.Errorf("the epoch is %d, and was %d", is, before)
	}
	s.stop(ctx)
}
