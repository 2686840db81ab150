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
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// lostTail returns the directories of a NATS server and of a graph service whose log has
// lost its newest commits. The state is as a crash leaves it: it ends before the loss.
func lostTail(tb testing.TB) (server, dir string, seen tail.Mark) {
	tb.Helper()
	server, dir = tb.TempDir(), tb.TempDir()
	run(tb, server, dir, creating(tb, "one"))
	olderServer, olderDir := copyOf(tb, server), copyOf(tb, dir)
	run(tb, server, dir, creating(tb, "two", "three"))
	file := tail.File(dir, realm)
	seen, err := tail.Read(file)
	if err != nil || seen.Sequence != checkpoint(tb, dir).GetSequence() {
		tb.Fatalf("after a stop the mark is %+v, %v; the state is at %v", seen, err, checkpoint(tb, dir))
	}
	mark, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(tail.File(olderDir, realm), mark, 0o600)
	}
	must.Succeed(tb, err)
	return olderServer, olderDir, seen
}

// realmEvents returns what the log records about the realm.
func realmEvents(ctx context.Context, tb testing.TB, n *installation) (events []client.LogEvent) {
	tb.Helper()
	operator := n.as(bus.RoleOperator)
	for c, err := range operator.Log().Read(ctx, client.FromSequence(1)) {
		must.Succeed(tb, err)
		events = append(events, client.RealmEvents(c.Commit)...)
	}
	return events
}

// A log that has lost acknowledged commits which the state does not have either is
// refused. When an operator accepts the loss, the realm goes on, and the log records it.
func TestLostTail(t *testing.T) {
	t.Parallel()
	server, dir, seen := lostTail(t)
	n := installationIn(t, server)
	end := lastOf(t, n.JS())
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
		if is := lastOf(t, n.JS()); is != end {
			t.Fatalf("%s: the log ends at %d, and ended at %d", what, is, end)
		}
	}
	accepting := func(sequence uint64) func(*graph.Config) {
		return func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: sequence} }
	}
	refused("a start", n.serve(dir, nil).Wait())
	refused("acceptance of another loss", n.serve(dir, accepting(seen.Sequence-1)).Wait())
	_, err := replay.Rebuild(n.Ctx, n.Conn(bus.RoleGraph), realm, dir, testkit.Secrets())
	refused("a rebuild", err)

	s := n.serve(dir, accepting(seen.Sequence)).writing()
	c := n.application()
	n.has("one")
	o := put(n.Ctx, t, c, configMap("behind"))
	if o.GetMetadata().GetResourceVersion() <= seen.Revision {
		t.Errorf("the revision %d was used before the loss, up to %d", o.GetMetadata().GetResourceVersion(), seen.Revision)
	}
	if d := n.verify().GetDifference(); d != "" {
		t.Errorf("the state differs from the log: %s", d)
	}
	events := realmEvents(n.Ctx, t, n)
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
	s.Stop()
	n.serve(dir, nil).writing().Stop()
	run := n.serve(t.TempDir(), nil).writing() // a replica that folds the whole log
	n.has("behind", "one")
	run.Stop()
}

// A state that has the lost commits is set aside, and rebuilt from the log.
func TestLostTailWithState(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	older := copyOf(t, server)
	run(t, server, dir, creating(t, "two"))
	seen := checkpoint(t, dir)
	n := installationIn(t, older)
	s := n.serve(dir, func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: seen.GetSequence()} }).writing()
	n.has("one")
	s.Stop()
	if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf(".lost-%s-%d", realm, seen.GetSequence()))); err != nil {
		t.Errorf("the state with the lost commits: %v", err)
	}
}

// A mark that is damaged is replaced; the state is compared with the log nevertheless.
func TestDamagedMark(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	file := tail.File(dir, realm)
	b, err := os.ReadFile(file)
	must.Succeed(t, err)
	b[len(b)/2] ^= 1
	must.Succeed(t, os.WriteFile(file, b, 0o600))
	if _, err := tail.Read(file); !errors.Is(err, tail.ErrDamaged) {
		t.Fatalf("read: %v", err)
	}
	n := installationIn(t, server)
	n.serve(dir, nil).writing().Stop()
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
			dir := t.TempDir()
			n := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(realm, "other")})
			s := n.serve(dir, func(c *graph.Config) {
				c.Realms, c.CheckLog = []string{realm, "other"}, time.Hour
				if idle {
					c.CheckLog = time.Millisecond
				}
			}).writing()
			c := n.application()
			n.create("one")
			js := n.JS()
			stream := n.Stream(bus.LogStream(realm))
			must.Succeed(t, stream.Purge(n.Ctx))
			end := lastOf(t, js)
			acknowledged := make(chan bool, 1)
			requesting, cancel := context.WithCancel(n.Ctx)
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
			n.WaitFor("the service not to be ready", func() bool { return refused(s) })
			cancel()
			if testkit.Receive(t, n.Ctx, "the end of the command", acknowledged) {
				t.Error("a command is acknowledged")
			}
			if !strings.Contains(s.Status(), "realm other: writer") {
				t.Errorf("the other realm: %s", s.Status())
			}
			if is := lastOf(t, js); is != end {
				t.Errorf("the log ends at %d, and ended at %d", is, end)
			}
			s.Stop()
			s = n.serve(dir, nil)
			n.WaitFor("the next start to be refused", func() bool { return refused(s) })
			s.Stop()
			s = n.serve(dir, func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: uint64(end)} }).writing()
			n.create("two")
			n.has("one", "two")
			s.Stop()
		})
	}
}

// A standby that has not followed the newest commit itself, since it has just started, does not append to a log that
// was purged.
func TestPurgedBeforeTakeOver(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	seldom := func(c *graph.Config) { c.CheckLog = time.Hour }
	dir := t.TempDir()
	s := n.serve(t.TempDir(), seldom).writing()
	n.create("one")
	js := n.JS()
	end := lastOf(t, js)
	for range 2 {
		standby := n.serve(dir, seldom)
		n.WaitFor("the standby to have caught up", func() bool { return standby.Ready() == nil })
		standby.Stop()
	}
	if at := checkpoint(t, dir).GetPosition(); at != uint64(end) {
		t.Fatalf("the state of the standby ends at %d, and the log at %d", at, end)
	}
	standby := n.serve(dir, seldom)
	n.WaitFor("the standby to be ready", func() bool { return standby.Ready() == nil })
	stream := n.Stream(bus.LogStream(realm))
	must.Succeed(t, stream.Purge(n.Ctx))
	s.Cancel()
	_ = s.Wait() // it may fail meanwhile
	if err := standby.Wait(); err == nil || !strings.Contains(err.Error(), "are missing") {
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
	run(t, server, dir, func(n *installation) {
		ctx := testkit.Context(t)
		a := newAttacker(t, n)
		from := a.last(ctx) + 1
		creating(t, "two", "three")(n)
		for at := from; at <= a.last(ctx); at++ {
			lost = append(lost, a.message(ctx, at))
		}
	})
	seen := checkpoint(t, dir).GetSequence()
	ctx := testkit.Context(t)
	n := installationIn(t, older)
	s := n.serve(dir, func(c *graph.Config) {
		c.Secrets, c.AcceptLoss = testkit.Secrets().Draw(), map[string]uint64{realm: seen}
	}).writing()
	a := newAttacker(t, n)
	for _, m := range lost {
		a.publish(ctx, m)
	}
	n.create("zero")
	n.has("one", "zero")
	verified(t, n)
	events := realmEvents(ctx, t, n)
	if len(events) != 2 || events[0].Type != "LossAccepted" || events[1].Type != "KeyChanged" || !strings.HasPrefix(events[1].Detail, "key 2, fingerprint ") {
		t.Errorf("the log records %+v about the realm", events)
	}
	s.Stop()
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

func lostAtTheirPositions(tb testing.TB, foreign int, secrets secret.Secrets) {
	tb.Helper()
	server, dir := tb.TempDir(), tb.TempDir()
	run(tb, server, dir, creating(tb, "one"))
	older := copyOf(tb, server)
	lost := map[uint64][]byte{} // by position
	run(tb, server, dir, func(n *installation) {
		ctx := testkit.Context(tb)
		a := newAttacker(tb, n)
		for range foreign {
			a.publish(ctx, []byte("foreign"))
		}
		from := a.last(ctx) + 1
		for i := range 20 {
			creating(tb, fmt.Sprintf("lost-%02d", i))(n)
		}
		for at := from; at <= a.last(ctx); at++ {
			lost[at] = a.message(ctx, at)
		}
	})
	seen := checkpoint(tb, dir).GetSequence()
	ctx := testkit.Context(tb)
	n := installationIn(tb, older)
	s := n.serve(dir, func(c *graph.Config) {
		c.Secrets, c.AcceptLoss = secrets, map[string]uint64{realm: seen}
	}).writing()
	a, c := newAttacker(tb, n), n.application()
	epoch := func() uint64 {
		tb.Helper()
		last := a.last(ctx)
		h, foreign := eventlog.NewKeys(secrets, realm).Check(eventlog.Message{Position: last, Data: a.message(ctx, last)})
		if foreign != "" {
			tb.Fatal(foreign)
		}
		return h.Epoch
	}
	names := []string{"one"}
	for i := range foreign + 1 {
		names = append(names, fmt.Sprintf("before-%d", i))
	}
	create(ctx, tb, c, names[1:]...)
	before := epoch()
	skipped := map[uint64]bool{}
	for i := range 4 {
		for range 2 {
			at := a.last(ctx) + 1
			if lost[at] == nil {
				tb.Fatalf("nothing was lost at sequence %d", at)
			}
			a.publish(ctx, lost[at])
			skipped[at] = true
		}
		names = append(names, fmt.Sprintf("new-%d", i))
		create(ctx, tb, c, names[len(names)-1])
	}
	slices.Sort(names)
	has(ctx, tb, c, names...)
	operator := n.as(bus.RoleOperator)
	read := func(what string, from client.LogOption) (commits int) {
		tb.Helper()
		for c, err := range operator.Log().Read(ctx, from) {
			must.Succeed(tb, err)
			if is := c.Skipped != ""; is != skipped[c.Sequence] {
				tb.Errorf("%s: sequence %d, skipped %q", what, c.Sequence, c.Skipped)
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
		tb.Errorf("%d commits are read, want %d", all, want)
	}
	for at := uint64(2); at <= end; at++ {
		read(fmt.Sprint("from sequence ", at), client.FromSequence(at))
	}
	o, err := c.Resource(configMaps, "a").Get(ctx, "new-1")
	must.Succeed(tb, err)
	if got := read("from a revision", client.FromRevision(o.GetMetadata().GetResourceVersion())); got != 3 {
		tb.Errorf("%d commits are read from that of new-1 on, want 3", got)
	}
	verified(tb, n)
	if is := epoch(); is != before {
		tb.Errorf("the epoch is %d, and was %d", is, before)
	}
	s.Stop()
}
