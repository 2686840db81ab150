package graph_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/bootstrap"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// holed moves the realm to a NATS server whose log lacks messages, and the graph service to an empty
// directory.
func (a *archived) holed(holes ...uint64) {
	a.t.Helper()
	ctx := testkit.Context(a.t)
	last, _, err := a.log().Last(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	from, err := testkit.JetStream(a.t, a.n, bus.RoleGraph).Stream(ctx, bus.LogStream(realm))
	if err != nil {
		a.t.Fatal(err)
	}
	a.n, a.dir = testkit.NATS(a.t), a.t.TempDir()
	js := testkit.JetStream(a.t, a.n, bus.RoleGraph)
	config := bus.LogConfig(realm, 1)
	config.DenyDelete = false
	to, err := js.CreateStream(ctx, config)
	if err != nil {
		a.t.Fatal(err)
	}
	for at := uint64(1); at <= last; at++ {
		m, err := from.GetMsg(ctx, at)
		if err != nil {
			a.t.Fatal(err)
		}
		if _, err := js.Publish(ctx, bus.LogSubject(realm), m.Data); err != nil {
			a.t.Fatal(err)
		}
	}
	for _, at := range holes {
		if err := to.DeleteMsg(ctx, at); err != nil {
			a.t.Fatal(err)
		}
	}
	if _, err := js.UpdateStream(ctx, bus.LogConfig(realm, 1)); err != nil {
		a.t.Fatal(err)
	}
}

// damagedLog is a graph service whose stream lacks messages that the archive has.
func (a *archived) damagedLog(ctx context.Context, dir string, r *prometheus.Registry, out *logged) *service {
	a.t.Helper()
	return serve(a.t, graphConn(a.t, a.n), dir, func(c *graph.Config) {
		c.Archive, c.Registry, c.Log = a.store, r, slog.New(slog.NewTextHandler(out, nil))
	}).writing(ctx)
}

// Commits that the stream of the log lacks are read from the archive: by a replica that starts from
// nothing, by one that starts again, by readers, by a verification and by a rebuild.
func TestHolesAreFilled(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	a.creates(names[:3]...)
	newAttacker(ctx, t, a.n).publish(ctx, []byte("no commit"))
	foreign := uint64(lastOf(t, testkit.JetStream(t, a.n, bus.RoleGraph)))
	a.creates(names[3:]...)
	a.segments()
	want := a.commits(ctx)
	a.holed(2, foreign-1, foreign, foreign+2)
	for range 2 {
		var out logged
		registry := prometheus.NewRegistry()
		s := a.damagedLog(ctx, a.dir, registry, &out)
		has(ctx, t, application(t, a.n), names...)
		if v := verify(ctx, t, a.n); v.GetDifference() != "" || v.GetSnapshot() != 0 {
			t.Errorf("the state is verified as %v", v)
		}
		if got := a.read(ctx); !strings.HasPrefix(got, want) {
			t.Errorf("readers get the commits %s, want %s", got, want)
		}
		a.seekEach(ctx)
		if got := metric(t, registry, "coppice_graph_log_damaged_messages"); got != 4 {
			t.Errorf("the metric counts %v messages", got)
		}
		if !strings.Contains(out.String(), "the archive has all commits that stood there") {
			t.Errorf("the log does not report the holes: %s", out.String())
		}
		s.stop(ctx)
	}
	before := checkpoint(t, a.dir)
	_, err := replay.Rebuild(ctx, testkit.Conn(t, a.n, bus.RoleGraph), realm, a.dir, testkit.Secrets())
	if broken := (*eventlog.BrokenError)(nil); !errors.As(err, &broken) {
		t.Errorf("a rebuild from the stream alone: %v", err)
	}
	done, err := bootstrap.Rebuild(ctx, a.log(), a.store, a.dir, slog.New(slog.DiscardHandler))
	if got := checkpoint(t, a.dir); err != nil || done.Revision != before.GetRevision() || got.GetChecksum() != before.GetChecksum() {
		t.Errorf("a rebuild with the archive: %+v, %v; the state is at %v, and was at %v", done, err, got, before)
	}
}

// Segments from which a hole of the stream is filled are not pruned, whatever the retention of the archive says.
func TestHolesAreNotPruned(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	a.creates("a", "b", "c", "d")
	a.segments()
	a.holed(2, 3)
	registry := prometheus.NewRegistry()
	start := func() *service {
		return serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) {
			c.Archive, c.ArchiveLimits, c.ArchiveRetention, c.Registry = a.store, soon, lifecycle.Retention{Bytes: 1}, registry
		}).writing(ctx)
	}
	s := start()
	id, revision := a.at(ctx)
	_, names := a.verified(ctx, id, revision, "e")
	operator := client.New(testkit.Conn(t, a.n, bus.RoleOperator), client.WithActor(bus.RoleOperator))
	testkit.WaitFor(t, ctx, "a warning that the archive is too large", func() bool {
		warnings, err := operator.Warnings(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(warnings, func(w client.Warning) bool { return w.Reason == lifecycle.WarnArchiveTooLarge })
	})
	s.stop(ctx)
	registry = prometheus.NewRegistry()
	s = start()
	has(ctx, t, application(t, a.n), append([]string{"a", "b", "c", "d"}, names...)...)
	s.stop(ctx)
	if until, err := archive.PrunedUntil(ctx, a.store, id); err != nil || until != 0 {
		t.Errorf("pruned until commit %d, %v", until, err)
	}
}

// A start is refused if neither the stream nor the archive has a commit.
func TestHoleThatIsNotArchived(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	a.creates("one")
	a.segments()
	archived := uint64(lastOf(t, testkit.JetStream(t, a.n, bus.RoleGraph)))
	a.creates("two")
	a.holed(archived, archived+1)
	err := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) { c.Archive = a.store }).wait(ctx)
	broken := (*eventlog.BrokenError)(nil)
	if !errors.As(err, &broken) || !strings.Contains(err.Error(), fmt.Sprintf("2 messages from sequence %d to %d are missing", archived, archived+1)) {
		t.Errorf("a start: %v", err)
	}
}

// Readers of a log that has lost commits get an error that names them and their revisions, wherever they begin, and
// also if they select commits. They get all commits before and behind the gap.
func TestHolesAreNamed(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	a.creates("name-a", "name-b", "name-c", "name-d", "name-e", "name-f")
	a.segments()
	a.holed(3, 4)
	reader := client.New(testkit.Conn(t, a.n, bus.RoleReader), client.WithActor(bus.RoleReader)).Log()
	revisions := map[uint64]uint64{} // the first of each commit
	s := a.damagedLog(ctx, a.dir, prometheus.NewRegistry(), &logged{})
	for c, err := range reader.Read(ctx, client.FromSequence(1)) {
		if err != nil || c.Sequence != c.GetSequence() {
			t.Fatalf("commit %d at sequence %d: %v", c.GetSequence(), c.Sequence, err)
		}
		revisions[c.Sequence] = c.GetFirstRevision()
	}
	s.stop(ctx)
	s = serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: 4} }).writing(ctx)
	last, behind := uint64(len(revisions)+1), ""
	for sequence := uint64(5); sequence < last; sequence++ {
		behind += fmt.Sprint(sequence, " ")
	}
	for _, tc := range []struct {
		of   []client.LogOption
		want string // the sequences that are read, and whether the gap ends them
	}{
		{[]client.LogOption{client.FromSequence(1)}, "1 2 gap"},
		{[]client.LogOption{client.FromSequence(1), client.ToSequence(2)}, "1 2 "},
		{[]client.LogOption{client.FromSequence(1), client.ToSequence(3)}, "1 2 gap"},
		{[]client.LogOption{client.FromSequence(3), client.ToSequence(3)}, "gap"},
		{[]client.LogOption{client.FromSequence(4)}, "gap"},
		{[]client.LogOption{client.FromSequence(5), client.ToSequence(last - 1)}, behind},
		{[]client.LogOption{client.FromSequence(1), client.ForName("name-f")}, "gap"},
		{[]client.LogOption{client.FromSequence(5), client.ToSequence(last - 1), client.ForName("none")}, ""},
		{[]client.LogOption{client.FromRevision(revisions[3])}, "2 gap"},
		{[]client.LogOption{client.FromRevision(revisions[5]), client.Limit(1)}, "5 "},
	} {
		got := ""
		for c, err := range reader.Read(ctx, tc.of...) {
			if err == nil {
				got += fmt.Sprint(c.Sequence, " ")
				continue
			}
			got += "gap"
			want := fmt.Sprintf("commits 3 to 4 with the revisions %d to %d are neither in the log nor in the archive: what follows them begins at sequence 5, with revision %d", revisions[3], revisions[5]-1, revisions[5])
			if !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v; want %q", tc.of, err, want)
			}
		}
		if got != tc.want {
			t.Errorf("%v: read %q, want %q", tc.of, got, tc.want)
		}
	}
	s.stop(ctx)
}

// A hole is named also if the message behind it is no commit.
func TestHoleBeforeForeignMessage(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	a.creates("a", "b", "c")
	newAttacker(ctx, t, a.n).publish(ctx, []byte("no commit"))
	foreign := uint64(lastOf(t, testkit.JetStream(t, a.n, bus.RoleGraph)))
	a.creates("d", "e", "f")
	a.segments()
	a.holed(foreign - 1)
	s := a.damagedLog(ctx, a.dir, prometheus.NewRegistry(), &logged{})
	s.stop(ctx)
	s = serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: foreign - 1} }).writing(ctx)
	reader := client.New(testkit.Conn(t, a.n, bus.RoleReader), client.WithActor(bus.RoleReader)).Log()
	for _, from := range []uint64{1, foreign - 1} {
		var last error
		for c, err := range reader.Read(ctx, client.FromSequence(from)) {
			if last = err; err == nil && c.Sequence > foreign {
				t.Errorf("from %d: the commit at %d is read behind the hole", from, c.Sequence)
			}
		}
		if want := fmt.Sprintf("commits %d to %[1]d with", foreign-1); !errors.Is(last, client.ErrExpired) || !strings.Contains(last.Error(), want) {
			t.Errorf("from %d: %v; want %q", from, last, want)
		}
	}
	s.stop(ctx)
}

// commits describes the commits of the stream.
func (a *archived) commits(ctx context.Context) (all string) {
	a.t.Helper()
	err := a.log().Follow(ctx, 1, func(m eventlog.Message) error {
		if h, foreign := a.log().Keys().Check(m); foreign == "" {
			all += fmt.Sprintf("%d@%d ", h.Sequence, m.Sequence)
		}
		if m.Pending == 0 {
			return errors.ErrUnsupported
		}
		return nil
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		a.t.Fatal(err)
	}
	return all
}

// read is commits as the API has them.
func (a *archived) read(ctx context.Context) (all string) {
	a.t.Helper()
	log := client.New(testkit.Conn(a.t, a.n, bus.RoleReader), client.WithActor(bus.RoleReader)).Log()
	for c, err := range log.Read(ctx, client.FromSequence(1)) {
		if err != nil {
			a.t.Fatal(err)
		}
		all += fmt.Sprintf("%d@%d ", c.GetSequence(), c.Sequence)
	}
	return all
}

// copied returns a copy of the NATS server's directory, as it is now.
func (a *archived) copied() string {
	a.t.Helper()
	if err := a.n.Shutdown(); err != nil {
		a.t.Fatal(err)
	}
	older := copyOf(a.t, a.nats)
	a.n = testkit.StartNATS(a.t, natsd.Config{Dir: a.nats})
	return older
}

// seekEach reads from each revision on, and checks that this begins with the commit that has it.
func (a *archived) seekEach(ctx context.Context) {
	a.t.Helper()
	log := client.New(testkit.Conn(a.t, a.n, bus.RoleReader), client.WithActor(bus.RoleReader)).Log()
	of := map[uint64]uint64{} // the sequence of the commit, by revision
	for c, err := range log.Read(ctx, client.FromSequence(1)) {
		if err != nil {
			a.t.Fatal(err)
		}
		for i := range c.GetEvents() {
			of[c.GetFirstRevision()+uint64(i)] = c.GetSequence()
		}
	}
	for revision, want := range of {
		for c, err := range log.Read(ctx, client.FromRevision(revision), client.Limit(1)) {
			if err != nil || c.GetSequence() != want {
				a.t.Errorf("from revision %d on: commit %d, %v; want %d", revision, c.GetSequence(), err, want)
			}
		}
	}
}

// A log that has lost its newest commits gets them back from the archive, at their positions, also if
// the state has them, and if two graph services do it at the same time.
func TestLostTailIsRestored(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	a := newArchived(t)
	a.creates("one")
	older := a.copied()
	a.creates("two", "three")
	a.segments()
	last := lastOf(t, testkit.JetStream(t, a.n, bus.RoleGraph))
	mark, err := tail.Read(tail.File(a.dir, realm))
	if err != nil {
		t.Fatal(err)
	}
	other := copyOf(t, a.dir)
	a.n = testkit.StartNATS(t, natsd.Config{Dir: older})
	log := a.log()
	if end := lastOf(t, testkit.JetStream(t, a.n, bus.RoleGraph)); end >= last {
		t.Fatalf("the older log ends at %d, and the newer one at %d", end, last)
	}
	started := make([]*service, 2)
	for i, dir := range []string{a.dir, other} {
		started[i] = serve(t, graphConn(t, a.n), dir, func(c *graph.Config) { c.Archive, c.Instance = a.store, fmt.Sprint("graph-", i) })
	}
	testkit.WaitFor(t, ctx, "a writer", func() bool { return started[0].Writing() || started[1].Writing() })
	has(ctx, t, application(t, a.n), "one", "three", "two")
	commit, err := log.Get(ctx, mark.Position)
	if err != nil || eventlog.Checksum(commit) != mark.Checksum {
		t.Errorf("sequence %d is not commit %d again: %v", mark.Position, mark.Sequence, err)
	}
	create(ctx, t, application(t, a.n), "four")
	if d := verify(ctx, t, a.n).GetDifference(); d != "" {
		t.Errorf("the state differs from the log: %s", d)
	}
	for _, s := range started {
		s.stop(ctx)
	}
}

// A graph service that has seen nothing of the log restores what the archive alone has seen.
func TestLostTailOfNewReplica(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	a := newArchived(t)
	a.creates("one")
	older := a.copied()
	a.creates("three", "two")
	a.segments()
	a.n = testkit.StartNATS(t, natsd.Config{Dir: older})
	if out := a.has(t.TempDir(), "one", "three", "two"); !strings.Contains(out, "appended again from the archive") {
		t.Errorf("the log does not report the loss: %s", out)
	}
	serve(t, graphConn(t, a.n), t.TempDir(), nil).writing(ctx).stop(ctx) // the stream has all
}

// Nothing is appended if the archive does not have the last commit that the graph service has seen.
func TestLostTailThatIsNotArchived(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	a := newArchived(t)
	a.creates("one")
	older := a.copied()
	a.creates("two")
	a.segments()
	a.creates("three")
	a.n = testkit.StartNATS(t, natsd.Config{Dir: older})
	js := testkit.JetStream(t, a.n, bus.RoleGraph)
	before := lastOf(t, js)
	err := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) { c.Archive = a.store }).wait(ctx)
	lost := (*replay.MismatchError)(nil)
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "does not have the commit at sequence") {
		t.Errorf("a start: %v", err)
	}
	if end := lastOf(t, js); end != before {
		t.Errorf("the log ends at %d, and ended at %d", end, before)
	}
}

// The stream says which realm it is of, not a mark that was left of the realm that it continues.
func TestMarkOfContinuedLog(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.snapshot()
	a.segments()
	mark, err := os.ReadFile(tail.File(a.dir, realm))
	if err != nil {
		t.Fatal(err)
	}
	begun := a.restore(0)
	dir := t.TempDir()
	if err := os.WriteFile(tail.File(dir, realm), mark, 0o600); err != nil {
		t.Fatal(err)
	}
	a.has(dir, "one")
	if id := checkpoint(t, dir).GetRealmId(); !bytes.Equal(id, begun.RealmID[:]) {
		t.Errorf("the state is of the realm %x, want %x", id, begun.RealmID)
	}
}

// A log whose last archived commit is in a hole is archived further.
func TestArchiverBehindHole(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	a := newArchived(t)
	a.creates("a", "b")
	a.segments()
	a.holed(uint64(lastOf(t, testkit.JetStream(t, a.n, bus.RoleGraph))))
	registry := prometheus.NewRegistry()
	var out logged
	s := a.archiving(ctx, a.dir, a.store, registry, &out)
	create(ctx, t, application(t, a.n), "c")
	id, _ := a.at(ctx)
	a.segmented(ctx, id)
	s.stop(ctx)
	archives(t, &out, registry)
	a.has(t.TempDir(), "a", "b", "c")
}
