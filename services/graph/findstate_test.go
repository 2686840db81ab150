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

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

// An empty replica, and one whose state ends before the log, start from the newest snapshot
// and the rest of the log. They go on as any other.
func TestStartFromArchive(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	stale := copyOf(t, a.dir)
	a.creates("three")
	name := a.snapshot()
	a.creates("four")
	a.segments()
	a.truncate(2)
	for what, dir := range map[string]string{"an empty replica": t.TempDir(), "a stale replica": stale} {
		if out := a.startsWith(dir, "four", "one", "three", "two"); !strings.Contains(out, "started from a snapshot") {
			t.Errorf("%s did not start from %s: %s", what, name, out)
		}
	}
	a.with(stale, nil, func() { a.create("five") })
	a.startsWith(t.TempDir(), "five", "four", "one", "three", "two")
}

// Without an archive a replica refuses a log that begins behind its state, and says what to
// do. Its state stays as it is.
func TestCutLogWithoutArchive(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	stale := copyOf(t, a.dir)
	a.creates("two", "three")
	a.truncate(1)
	before := checkpoint(t, stale)
	for what, dir := range map[string]string{"an empty replica": t.TempDir(), "a stale replica": stale} {
		err := a.serve(dir, nil).Wait()
		var cut *replay.CutError
		if !errors.As(err, &cut) || !strings.Contains(err.Error(), "--archive") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := checkpoint(t, stale); got.GetSequence() != before.GetSequence() {
		t.Errorf("the state is at %v, and was at %v", got, before)
	}
	_, err := replay.Rebuild(testkit.Context(t), a.Conn(bus.RoleGraph), realm, t.TempDir(), testkit.Secrets())
	var cut *replay.CutError
	if !errors.As(err, &cut) {
		t.Errorf("a rebuild: %v", err)
	}
}

// A replica whose last commit was cut off continues if the log continues this commit, also
// if no segment of the archive has it.
func TestLastCommitCut(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.snapshot()
	stale := copyOf(t, a.dir)
	a.creates("two")
	at := checkpoint(t, stale).GetPosition()
	last, _, err := a.log().Last(testkit.Context(t))
	must.Succeed(t, err)
	a.truncate(last - at)
	if out := a.startsWith(stale, "one", "two"); strings.Contains(out, "started from a snapshot") {
		t.Errorf("the state was replaced: %s", out)
	}
}

// A snapshot that is damaged, or that alone the store cannot read, is passed over, with a line that names it. The
// replica starts from an older one, and reads from the archive what the stream has no more.
func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	t.Run("damaged", func(t *testing.T) { startsWithoutNewest(t, (*archived).damage) })
	t.Run("unreadable", func(t *testing.T) {
		startsWithoutNewest(t, func(a *archived, name string) {
			a.store = &archivetest.Hooked{Store: a.store, Before: archivetest.Unreadable(name)}
		})
	})
}

func startsWithoutNewest(t *testing.T, spoil func(a *archived, name string)) {
	t.Helper()
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.snapshot()
	a.creates("two")
	a.creates("three")
	newest := a.snapshot()
	a.creates("four")
	a.segments()
	a.truncate(1)
	spoil(a, newest)
	out := a.startsWith(t.TempDir(), "four", "one", "three", "two")
	if !strings.Contains(out, newest) || !strings.Contains(out, "cannot be used") || !strings.Contains(out, "started from a snapshot") {
		t.Errorf("the log does not name %s: %s", newest, out)
	}
}

// A state is replaced only when the log was read to its end: if a segment behind the snapshot is damaged, the
// start is refused, and the state stays as it was.
func TestDamagedSegmentBehindSnapshot(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	stale := copyOf(t, a.dir)
	before := checkpoint(t, stale)
	a.creates("two", "three")
	a.snapshot()
	end := checkpoint(t, a.dir).GetSequence()
	a.creates("four", "five", "six")
	a.segments()
	a.truncate(1)
	segments := a.entries(archive.Segment)
	behind := slices.IndexFunc(segments, func(name string) bool { n, _ := archive.ParseName(name); return n.First > end })
	a.damage(segments[behind])
	err := a.serve(stale, func(c *graph.Config) { c.Archive = a.store }).Wait()
	if err == nil || !strings.Contains(err.Error(), segments[behind]) || !strings.Contains(err.Error(), "is unchanged") {
		t.Errorf("got %v", err)
	}
	if got := checkpoint(t, stale); !proto.Equal(got, before) {
		t.Errorf("the state is at %v, and was at %v", got, before)
	}
}

// damage changes a byte in the middle of an entry.
func (a *archived) damage(name string) {
	a.Helper()
	file := filepath.Join(a.root, filepath.FromSlash(name))
	b, err := os.ReadFile(file)
	must.Succeed(a, err)
	b[len(b)/2] ^= 1
	must.Succeed(a, os.Chmod(file, 0o600))
	must.Succeed(a, os.WriteFile(file, b, 0o600))
}

// Segments alone are enough: without a snapshot, a replica folds the log from its first commit.
// If a commit is neither in the stream nor in the archive, it refuses to start.
func TestSegmentsAlone(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	stale := copyOf(t, a.dir)
	a.creates("three", "four", "five")
	a.segments()
	a.truncate(2)
	a.with(t.TempDir(), nil, func() { a.has("five", "four", "one", "three", "two") })
	a.with(stale, nil, func() { a.has("five", "four", "one", "three", "two") })

	id := checkpoint(t, a.dir).GetRealmId()
	a.remove(archive.Name{Realm: [16]byte(id), Kind: archive.Segment, First: 1, Last: 3}.String())
	err := a.serve(t.TempDir(), func(c *graph.Config) { c.Archive = a.store }).Wait()
	if err == nil || !strings.Contains(err.Error(), "archive "+a.store.String()) {
		t.Errorf("got %v", err)
	}
}

// A state of another history than the archive is refused, even if its last commit is in the stream
// no more.
func TestStaleReplicaOfAnotherHistory(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	// The other history has the same realm id: it is that of a copy of the server.
	a.shutdown()
	dir := copyOf(t, a.dir)
	run(t, copyOf(t, a.nats), dir, creating(t, "other"))
	a.installation = installationIn(t, a.nats)
	a.creates("two", "three", "four")
	a.segments()
	a.snapshot()
	a.truncate(1)
	err := a.serve(dir, func(c *graph.Config) { c.Archive = a.store }).Wait()
	var mismatch *replay.MismatchError
	if !errors.As(err, &mismatch) {
		t.Errorf("got %v", err)
	}
}

// A state of which a file is missing is rebuilt from the archive, where the stream does not have
// the whole log.
func TestDamagedStateOfCutLog(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	a.snapshot()
	a.creates("three")
	a.segments()
	a.truncate(1)
	tables, err := filepath.Glob(filepath.Join(a.dir, realm, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("the state has the tables %v, %v", tables, err)
	}
	must.Succeed(t, os.Remove(tables[0]))
	if out := a.startsWith(a.dir, "one", "three", "two"); !strings.Contains(out, "the state was rebuilt from a snapshot of the archive") {
		t.Errorf("logged %s", out)
	}
}

// Readers of the log get commits that were cut from the stream from the archive: all of them, in
// order, from a sequence or from a revision.
func TestReadCutLog(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	a.snapshot()
	a.creates("three", "four")
	a.snapshot()
	a.segments()
	read := func(ctx context.Context, from ...client.LogOption) (list []*client.Commit) {
		t.Helper()
		operator := a.as(bus.RoleOperator)
		for c, err := range operator.Log().Read(ctx, from...) {
			must.Succeed(t, err)
			list = append(list, c.Commit)
		}
		return list
	}
	a.with(a.dir, nil, func() {
		whole := read(a.Ctx, client.FromSequence(1))
		a.truncate(2)
		for from := range whole {
			got := read(a.Ctx, client.FromSequence(uint64(from+1)))
			if len(got) != len(whole)-from {
				t.Fatalf("from commit %d: %d commits, want %d", from+1, len(got), len(whole)-from)
			}
			for i, c := range got {
				if !proto.Equal(c, whole[from+i]) {
					t.Errorf("from commit %d: commit %d differs", from+1, from+i+1)
				}
			}
			revision := whole[from].GetFirstRevision()
			if len(whole[from].GetEvents()) == 0 {
				continue
			}
			if got := read(a.Ctx, client.FromRevision(revision)); !proto.Equal(got[0], whole[from]) {
				t.Errorf("from revision %d: commit %d, want %d", revision, got[0].GetSequence(), from+1)
			}
		}
	})
}

// A log that ends before the newest snapshot of the archive has lost commits: an empty replica
// refuses it, too. When the loss is accepted, it starts from what the log has.
func TestSnapshotOfLostCommits(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.snapshot()
	a.shutdown()
	older := copyOf(t, a.nats)
	a.installation = installationIn(t, a.nats)
	a.creates("two", "three")
	a.snapshot()
	seen := checkpoint(t, a.dir).GetSequence()
	a.installation = installationIn(t, older)
	dir := t.TempDir()
	for range 2 { // also when the snapshot is loaded
		err := a.serve(dir, func(c *graph.Config) { c.Archive = a.store }).Wait()
		var mismatch *replay.MismatchError
		if !errors.As(err, &mismatch) || mismatch.Known != seen {
			t.Fatalf("got %v, want a log that has lost commits up to %d", err, seen)
		}
	}
	s := a.serve(dir, func(c *graph.Config) {
		c.Archive, c.AcceptLoss = a.store, map[string]uint64{realm: seen}
	}).writing()
	a.has("one")
	// The log grows beyond the commit of the snapshot: the next empty replica loads it.
	names := []string{"one"}
	for i := range 10 {
		names = append(names, fmt.Sprintf("later-%d", i))
		put(a.Ctx, t, a.application(), configMap(names[i+1]))
	}
	s.Stop()
	s = a.serve(t.TempDir(), func(c *graph.Config) {
		c.Archive, c.AcceptLoss = a.store, map[string]uint64{realm: seen}
	}).writing()
	slices.Sort(names)
	a.has(names...)
	s.Stop()
}

// A graph service that has seen lost commits, and begins with a snapshot that another one has stored after
// it recorded the loss, records no second one, and needs the flag for no other commit.
func TestLossRecordedByAnother(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.shutdown()
	older := copyOf(t, a.nats)
	a.installation = installationIn(t, a.nats)
	a.creates("two")
	less := copyOf(t, a.dir)
	a.creates("three")
	other := a.dir // has seen more of what is lost
	a.dir, a.installation = less, installationIn(t, older)
	accepting := func(dir string) func(c *graph.Config) {
		seen := checkpoint(t, dir).GetSequence()
		return func(c *graph.Config) { c.Archive, c.AcceptLoss = a.store, map[string]uint64{realm: seen} }
	}
	s := a.serve(a.dir, accepting(a.dir)).writing()
	a.create("later", "latest")
	s.Stop()
	a.segments()
	a.snapshot()
	for _, config := range []func(*graph.Config){accepting(other), func(c *graph.Config) { c.Archive = a.store }} {
		s = a.serve(other, config).writing()
		a.has("later", "latest", "one")
		verified(t, a.installation)
		s.Stop()
	}
	losses := 0
	a.with(a.dir, nil, func() {
		operator := a.as(bus.RoleOperator)
		for e, err := range operator.Log().Read(a.Ctx, client.FromSequence(1)) {
			must.Succeed(t, err)
			for _, cmd := range e.GetCommands() {
				if cmd.GetVerb() == "accept-loss" {
					losses++
				}
			}
		}
	})
	if losses != 1 {
		t.Errorf("the log records %d losses", losses)
	}
}

// A range of the log that ends where nothing is, between two commits in the archive, is read to its end.
func TestReadLogUpToGap(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	attacker := newAttacker(t, a.installation)
	attacker.publish(a.Ctx, []byte("no commit"))
	log := a.log()
	gap, _, err := log.Last(a.Ctx)
	must.Succeed(t, err)
	a.creates("two", "three")
	a.segments()
	a.snapshot()
	a.cut(1)
	a.with(a.dir, nil, func() {
		c := a.as(bus.RoleReader)
		if commit, err := c.Log().Commit(a.Ctx, gap); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("commit %d: %v, %v", gap, commit, err)
		}
		last := uint64(0)
		for c, err := range c.Log().Read(a.Ctx, client.FromSequence(1), client.ToSequence(gap)) {
			must.Succeed(t, err)
			last = c.Sequence
		}
		if last != gap-1 {
			t.Errorf("the last commit up to %d is %d", gap, last)
		}
	})
}
