package graph_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// holed moves the realm to a NATS server whose log lacks messages, and the graph service to an empty
// directory.
func (a *archived) holed(holes ...uint64) {
	a.Helper()
	last, _, err := a.log().Last(a.Ctx)
	must.Succeed(a, err)
	from := a.Stream(bus.LogStream(realm))
	a.installation, a.dir = newInstallation(a.TB), a.TempDir()
	js := a.JS()
	config := bus.LogConfig(realm, 1)
	config.DenyDelete = false
	to, err := js.CreateStream(a.Ctx, config)
	must.Succeed(a, err)
	for at := uint64(1); at <= last; at++ {
		m, err := from.GetMsg(a.Ctx, at)
		must.Succeed(a, err)
		if _, err := js.Publish(a.Ctx, bus.LogSubject(realm), m.Data); err != nil {
			a.Fatal(err)
		}
	}
	for _, at := range holes {
		must.Succeed(a, to.DeleteMsg(a.Ctx, at))
	}
	if _, err := js.UpdateStream(a.Ctx, bus.LogConfig(realm, 1)); err != nil {
		a.Fatal(err)
	}
}

// damagedLog is a graph service whose stream lacks messages that the archive has.
func (a *archived) damagedLog(dir string, r *prometheus.Registry, out *testkit.Output) *service {
	a.Helper()
	return a.serve(dir, func(c *graph.Config) {
		c.Archive, c.Registry, c.Log = a.store, r, slog.New(slog.NewTextHandler(out, nil))
	}).writing()
}

// Commits that the stream of the log lacks are read from the archive: by a replica that starts from
// nothing, by one that starts again, by readers, by a verification and by a rebuild.
func TestHolesAreFilled(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	a.creates(names[:3]...)
	newAttacker(t, a.installation).publish(a.Ctx, []byte("no commit"))
	foreign := uint64(lastOf(t, a.JS()))
	a.creates(names[3:]...)
	a.segments()
	want := a.commits()
	a.holed(2, foreign-1, foreign, foreign+2)
	for range 2 {
		var out testkit.Output
		registry := prometheus.NewRegistry()
		s := a.damagedLog(a.dir, registry, &out)
		a.has(names...)
		if v := a.verify(); v.GetDifference() != "" || v.GetSnapshot() != 0 {
			t.Errorf("the state is verified as %v", v)
		}
		if got := a.read(); !strings.HasPrefix(got, want) {
			t.Errorf("readers get the commits %s, want %s", got, want)
		}
		a.seekEach()
		if got := metric(t, registry, "coppice_graph_log_damaged_messages"); got != 4 {
			t.Errorf("the metric counts %v messages", got)
		}
		if !strings.Contains(out.String(), "the archive has all commits that stood there") {
			t.Errorf("the log does not report the holes: %s", out.String())
		}
		s.Stop()
	}
	before := checkpoint(t, a.dir)
	_, err := replay.Rebuild(a.Ctx, a.Conn(bus.RoleGraph), realm, a.dir, testkit.Secrets())
	if broken := (*eventlog.BrokenError)(nil); !errors.As(err, &broken) {
		t.Errorf("a rebuild from the stream alone: %v", err)
	}
	done, err := archivestate.Rebuild(a.Ctx, a.log(), a.store, a.dir, slog.New(slog.DiscardHandler))
	if got := checkpoint(t, a.dir); err != nil || done.Revision != before.GetRevision() || got.GetChecksum() != before.GetChecksum() {
		t.Errorf("a rebuild with the archive: %+v, %v; the state is at %v, and was at %v", done, err, got, before)
	}
}

// Segments from which a hole of the stream is filled are not pruned, whatever the retention of the archive says.
func TestHolesAreNotPruned(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a", "b", "c", "d")
	a.segments()
	a.holed(2, 3)
	registry := prometheus.NewRegistry()
	start := func() *service {
		return a.serve(a.dir, func(c *graph.Config) {
			c.Archive, c.ArchiveLimits, c.ArchiveRetention, c.Registry = a.store, soon, lifecycle.Retention{Bytes: 1}, registry
		}).writing()
	}
	s := start()
	id, revision := a.at()
	_, names := a.verified(id, revision, "e")
	a.warned(lifecycle.WarnArchiveTooLarge)
	s.Stop()
	registry = prometheus.NewRegistry()
	s = start()
	a.has(append([]string{"a", "b", "c", "d"}, names...)...)
	s.Stop()
	if until, err := archive.PrunedUntil(a.Ctx, a.store, id); err != nil || until != 0 {
		t.Errorf("pruned until commit %d, %v", until, err)
	}
}

// A start is refused if neither the stream nor the archive has a commit.
func TestHoleThatIsNotArchived(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.segments()
	archived := uint64(lastOf(t, a.JS()))
	a.creates("two")
	a.holed(archived, archived+1)
	err := a.serve(a.dir, func(c *graph.Config) { c.Archive = a.store }).Wait()
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
	a.creates("name-a", "name-b", "name-c", "name-d", "name-e", "name-f")
	a.segments()
	a.holed(3, 4)
	reader := a.as(bus.RoleReader).Log()
	revisions := map[uint64]uint64{} // the first of each commit
	s := a.damagedLog(a.dir, prometheus.NewRegistry(), &testkit.Output{})
	for c, err := range reader.Read(a.Ctx, client.FromSequence(1)) {
		if err != nil || c.Sequence != c.GetSequence() {
			t.Fatalf("commit %d at sequence %d: %v", c.GetSequence(), c.Sequence, err)
		}
		revisions[c.Sequence] = c.GetFirstRevision()
	}
	s.Stop()
	s = a.serve(a.dir, func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: 4} }).writing()
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
		for c, err := range reader.Read(a.Ctx, tc.of...) {
			if err == nil {
				got += fmt.Sprint(c.Sequence, " ")
				continue
			}
			got += "gap"
			want := fmt.Sprintf("commits 3 to 4 with the revisions %d to %d are neither in the log nor in the archive: what follows them begins at position 5 of the stream, with revision %d", revisions[3], revisions[5]-1, revisions[5])
			if !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v; want %q", tc.of, err, want)
			}
		}
		if got != tc.want {
			t.Errorf("%v: read %q, want %q", tc.of, got, tc.want)
		}
	}
	s.Stop()
}

// A hole is named also if the message behind it is no commit.
func TestHoleBeforeForeignMessage(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a", "b", "c")
	newAttacker(t, a.installation).publish(a.Ctx, []byte("no commit"))
	foreign := uint64(lastOf(t, a.JS()))
	a.creates("d", "e", "f")
	a.segments()
	a.holed(foreign - 1)
	s := a.damagedLog(a.dir, prometheus.NewRegistry(), &testkit.Output{})
	s.Stop()
	s = a.serve(a.dir, func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: foreign - 1} }).writing()
	reader := a.as(bus.RoleReader).Log()
	for _, from := range []uint64{1, foreign - 1} {
		var last error
		for c, err := range reader.Read(a.Ctx, client.FromSequence(from)) {
			if last = err; err == nil && c.Sequence > foreign {
				t.Errorf("from %d: the commit at %d is read behind the hole", from, c.Sequence)
			}
		}
		if want := fmt.Sprintf("commits %d to %[1]d with", foreign-1); !errors.Is(last, client.ErrExpired) || !strings.Contains(last.Error(), want) {
			t.Errorf("from %d: %v; want %q", from, last, want)
		}
	}
	s.Stop()
}

// commits describes the commits of the stream.
func (a *archived) commits() (all string) {
	a.Helper()
	err := a.log().Follow(a.Ctx, 1, func(m eventlog.Message) error {
		if h, foreign := a.log().Keys().Check(m); foreign == "" {
			all += fmt.Sprintf("%d@%d ", h.Sequence, m.Position)
		}
		if m.Pending == 0 {
			return errors.ErrUnsupported
		}
		return nil
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		a.Fatal(err)
	}
	return all
}

// read is commits as the API has them.
func (a *archived) read() (all string) {
	a.Helper()
	log := a.as(bus.RoleReader).Log()
	for c, err := range log.Read(a.Ctx, client.FromSequence(1)) {
		must.Succeed(a, err)
		all += fmt.Sprintf("%d@%d ", c.GetSequence(), c.Sequence)
	}
	return all
}

// copied returns a copy of the NATS server's directory, as it is now.
func (a *archived) copied() string {
	a.Helper()
	a.shutdown()
	older := copyOf(a, a.nats)
	a.installation = installationIn(a.TB, a.nats)
	return older
}

// seekEach reads from each revision on, and checks that this begins with the commit that has it.
func (a *archived) seekEach() {
	a.Helper()
	log := a.as(bus.RoleReader).Log()
	of := map[uint64]uint64{} // the sequence of the commit, by revision
	for c, err := range log.Read(a.Ctx, client.FromSequence(1)) {
		must.Succeed(a, err)
		for i := range c.GetEvents() {
			of[c.GetFirstRevision()+uint64(i)] = c.GetSequence()
		}
	}
	for revision, want := range of {
		for c, err := range log.Read(a.Ctx, client.FromRevision(revision), client.Limit(1)) {
			if err != nil || c.GetSequence() != want {
				a.Errorf("from revision %d on: commit %d, %v; want %d", revision, c.GetSequence(), err, want)
			}
		}
	}
}

// A log that has lost its newest commits gets them back from the archive, at their positions, also if
// the state has them, and if two graph services do it at the same time.
func TestLostTailIsRestored(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	older := a.copied()
	a.creates("two", "three")
	a.segments()
	last := lastOf(t, a.JS())
	mark, err := tail.Read(tail.File(a.dir, realm))
	must.Succeed(t, err)
	other := copyOf(t, a.dir)
	a.installation = installationIn(t, older)
	log := a.log()
	if end := lastOf(t, a.JS()); end >= last {
		t.Fatalf("the older log ends at %d, and the newer one at %d", end, last)
	}
	started := make([]*service, 2)
	for i, dir := range []string{a.dir, other} {
		started[i] = a.serve(dir, func(c *graph.Config) { c.Archive, c.Instance = a.store, fmt.Sprint("graph-", i) })
	}
	a.WaitFor("a writer", func() bool { return started[0].Writing() || started[1].Writing() })
	a.has("one", "three", "two")
	commit, err := log.Get(a.Ctx, mark.Position)
	if err != nil || eventlog.Checksum(commit) != mark.Checksum {
		t.Errorf("sequence %d is not commit %d again: %v", mark.Position, mark.Sequence, err)
	}
	a.create("four")
	if d := a.verify().GetDifference(); d != "" {
		t.Errorf("the state differs from the log: %s", d)
	}
	for _, s := range started {
		s.Stop()
	}
}

// A graph service that has seen nothing of the log restores what the archive alone has seen.
func TestLostTailOfNewReplica(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	older := a.copied()
	a.creates("three", "two")
	a.segments()
	a.installation = installationIn(t, older)
	if out := a.startsWith(t.TempDir(), "one", "three", "two"); !strings.Contains(out, "appended again from the archive") {
		t.Errorf("the log does not report the loss: %s", out)
	}
	a.serve(t.TempDir(), nil).writing().Stop() // the stream has all
}

// Nothing is appended if the archive does not have the last commit that the graph service has seen.
func TestLostTailThatIsNotArchived(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	older := a.copied()
	a.creates("two")
	a.segments()
	a.creates("three")
	a.installation = installationIn(t, older)
	js := a.JS()
	before := lastOf(t, js)
	err := a.serve(a.dir, func(c *graph.Config) { c.Archive = a.store }).Wait()
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
	must.Succeed(t, err)
	begun := a.restore(0)
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(tail.File(dir, realm), mark, 0o600))
	a.startsWith(dir, "one")
	if id := checkpoint(t, dir).GetRealmId(); !bytes.Equal(id, begun.RealmID[:]) {
		t.Errorf("the state is of the realm %x, want %x", id, begun.RealmID)
	}
}

// A log whose last archived commit is in a hole is archived further.
func TestArchiverBehindHole(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a", "b")
	a.segments()
	a.holed(uint64(lastOf(t, a.JS())))
	registry := prometheus.NewRegistry()
	var out testkit.Output
	s := a.archiving(a.dir, a.store, registry, &out)
	a.create("c")
	id, _ := a.at()
	a.segmented(id)
	s.Stop()
	archives(t, &out, registry)
	a.startsWith(t.TempDir(), "a", "b", "c")
}
