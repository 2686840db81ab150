package graph_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// flipping is an archive that stores damaged segments until it is mended.
type flipping struct {
	archive.Store
	mu     sync.RWMutex // while a segment is stored
	mended bool
}

// mend returns when no damaged segment is stored any more.
func (f *flipping) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mended = true
}

func (f *flipping) Put(ctx context.Context, name string, in io.Reader, size int64) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if n, _ := archive.ParseName(name); n.Kind == archive.Segment && !f.mended {
		in = flip(in, size/3)
	}
	return f.Store.Put(ctx, name, in, size)
}

// flip returns a content with a wrong byte.
func flip(in io.Reader, at int64) io.Reader {
	b, err := io.ReadAll(in)
	if err != nil {
		return iotest.ErrReader(err)
	}
	b[at] ^= 1
	return bytes.NewReader(b)
}

// If a segment in the archive is damaged, no snapshot is stored or recorded as verified. The damage
// is reported, and the realm goes on. When the damaged segments are deleted, they are
// archived again.
func TestArchiverFindsDamage(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	registry := prometheus.NewRegistry()
	store := &flipping{Store: a.store}
	s := a.archiving(a.dir, store, registry, &testkit.Output{})
	a.create("one", "two", "three")
	a.WaitFor("failures", func() bool {
		return metric(t, registry, "coppice_graph_archive_failures_total") >= 2
	})
	a.warned(lifecycle.WarnUnarchived, "/segment/")
	a.create("four")
	damaged := a.entries(archive.Segment)
	if len(damaged) == 0 {
		t.Error("no segment was stored")
	}
	for _, kind := range []archive.Kind{archive.Snapshot, archive.Verified} {
		if got := a.entries(kind); len(got) > 0 {
			t.Errorf("with damaged segments the archive has %v", got)
		}
	}
	store.mend()
	for _, name := range a.entries(archive.Segment) {
		a.remove(name)
	}
	id, revision := a.at()
	a.verified(id, revision-1, "five")
	s.Stop()
}

// If the newest verified snapshot or its record cannot be used, the next one is verified with the one before it.
// Operators are warned of the entry.
func TestArchiverPassesUnusableSnapshot(t *testing.T) {
	t.Parallel()
	unread := func(a *archived, name string) archive.Store {
		return &archivetest.Hooked{Store: a.store, Before: archivetest.Unreadable(name)}
	}
	damaged := func(a *archived, name string) archive.Store {
		a.damage(name)
		return a.store
	}
	newer := func(a *archived, name string) archive.Store {
		line := `{"format":2}`
		a.replace(name, fmt.Appendf(nil, "%s\n%08x\n", line, crc32.ChecksumIEEE([]byte(line))))
		return a.store
	}
	for what, c := range map[string]struct {
		of    func(realm [16]byte, sequence uint64) archive.Name
		spoil func(a *archived, name string) archive.Store
		says  string
	}{
		"a damaged snapshot":         {archive.SnapshotName, damaged, "if it is damaged, delete it with its record"},
		"an unreadable one":          {archive.SnapshotName, unread, "if it is damaged, delete it with its record"},
		"a damaged record":           {archive.VerifiedName, damaged, "if it is damaged, delete it"},
		"an unreadable record":       {archive.VerifiedName, unread, "if it is damaged, delete it"},
		"a record of a newer format": {archive.VerifiedName, newer, "it has format 2, and this program reads format 1: use the version of Coppice that wrote it, or a later one"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := newArchived(t)
			s := a.archiving(a.dir, a.store, prometheus.NewRegistry(), &testkit.Output{})
			a.create("first")
			id, revision := a.at()
			older, _ := a.verified(id, revision-1, "one")
			a.verified(id, older.Revision, "two")
			s.Stop()
			_, newest, ok, err := archive.NewestVerified(a.Ctx, a.store, id)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			name := c.of(id, newest.Sequence).String()
			a.store = c.spoil(a, name)
			registry := prometheus.NewRegistry()
			s = a.archiving(a.dir, a.store, registry, &testkit.Output{})
			a.verified(id, newest.Revision, "three")
			message := a.warned(lifecycle.WarnArchiveDamaged, name, c.says)
			if !strings.Contains(c.says, "delete it") && strings.Contains(message, "delete it") {
				t.Errorf("an entry that is not damaged is to be deleted: %s", message)
			}
			if metric(t, registry, "coppice_graph_archive_failures_total") == 0 {
				t.Error("nothing was counted")
			}
			s.Stop()
			// The next snapshot, of which nothing is pruned; later ones are verified with it.
			var next archive.Verification
			for _, record := range a.entries(archive.Verified) {
				n, _ := archive.ParseName(record)
				if n.Last <= newest.Sequence || next.Sequence > 0 && n.Last > next.Sequence {
					continue
				}
				if next, err = archive.ReadVerification(a.Ctx, a.store, id, n.Last); err != nil {
					t.Fatal(err)
				}
			}
			if next.From >= newest.Sequence {
				t.Errorf("the snapshot was verified with the one that cannot be used: %+v", next)
			}
		})
	}
}

// The log is archived further behind a segment that cannot be read, of which operators are warned. When it is
// deleted, it is archived again, and the next snapshot is verified.
func TestArchiverPassesUnusableSegment(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two", "three")
	a.segments()
	segments := a.entries(archive.Segment)
	newest := segments[len(segments)-1]
	a.replace(newest, []byte("cut short"))
	s := a.archiving(a.dir, a.store, prometheus.NewRegistry(), &testkit.Output{})
	a.create("four")
	id, revision := a.at()
	a.warned(lifecycle.WarnArchiveDamaged, newest, "delete it, and copy it from another archive")
	a.segmented(id)
	a.remove(newest)
	s.Stop()
	s = a.archiving(a.dir, a.store, prometheus.NewRegistry(), &testkit.Output{}) // at once, and not ten minutes after the failure
	a.verified(id, revision-1, "five")
	s.Stop()
}

// A segment that was deleted is archived again, also while nothing of the log is to be cut.
func TestArchiverRestoresDeletedSegment(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	limits := soon
	limits.SnapshotBytes, limits.Prune = 1<<30, 10*time.Millisecond
	s := a.serve(a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, limits }).writing()
	a.create("one", "two", "three")
	id, _ := a.at()
	a.segmented(id)
	first := a.entries(archive.Segment)[0]
	a.remove(first)
	a.WaitFor("the commits to be archived again", func() bool {
		segments := a.items(id)
		return len(segments) > 0 && segments[0].First == 1
	})
	s.Stop()
}

// After an accepted loss of commits, nothing is archived while the archive has segments or verified
// snapshots with the lost commits, and the warning names all of them. When they are moved away, the
// log is archived as it goes on.
func TestArchiverAfterAcceptedLoss(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.segments()
	kept := a.entries(archive.Segment)
	a.shutdown()
	older := copyOf(t, a.nats)
	a.installation = installationIn(t, a.nats)
	a.creates("two", "three")
	a.segments()
	a.snapshot()
	seen := checkpoint(t, a.dir).GetSequence()
	a.installation = installationIn(t, older)
	var lost []string
	for _, kind := range []archive.Kind{archive.Segment, archive.Snapshot, archive.Verified} {
		for _, name := range a.entries(kind) {
			if !slices.Contains(kept, name) {
				lost = append(lost, name)
			}
		}
	}
	if len(lost) < 3 {
		t.Fatalf("the archive has %v with lost commits", lost)
	}
	registry := prometheus.NewRegistry()
	var slow atomic.Bool // the archive opens no segment in time
	slow.Store(true)
	store := &archivetest.Hooked{Store: a.store, Before: func(_ context.Context, c archivetest.Call) error {
		if slow.Load() && c.Of(archivetest.Open, archive.Segment) {
			return context.DeadlineExceeded
		}
		return nil
	}}
	s := a.serve(t.TempDir(), func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.Registry, c.AcceptLoss = store, soon, registry, map[string]uint64{realm: seen}
	}).writing()
	// The first failure is another one, and not all that operators learn.
	a.warned(lifecycle.WarnUnarchived, context.DeadlineExceeded.Error())
	slow.Store(false)
	// warned waits for a warning that names entries, and not others.
	warned := func(names, others []string) {
		t.Helper()
		a.warning(fmt.Sprintf("a warning that names %v alone", names), func(w client.Warning) bool {
			named := func(name string) bool { return strings.Contains(w.Message, name) }
			return w.Reason == lifecycle.WarnUnarchived && !slices.ContainsFunc(names, func(name string) bool { return !named(name) }) && !slices.ContainsFunc(others, named)
		})
	}
	warned(lost, kept)
	// The snapshot alone is enough, also while the log is shorter than it.
	var snapshots []string
	for _, name := range lost {
		if n, _ := archive.ParseName(name); n.Kind != archive.Segment {
			snapshots = append(snapshots, name)
		} else if err := a.store.Delete(a.Ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	warned(snapshots, kept)
	// And when it is longer.
	for i := range int(seen) {
		a.create(fmt.Sprintf("more-%d", i))
	}
	failures := metric(t, registry, "coppice_graph_archive_failures_total")
	a.WaitFor("the archiver to look again", func() bool {
		return metric(t, registry, "coppice_graph_archive_failures_total") > failures+1
	})
	warned(snapshots, kept)
	if got := a.entries(archive.Segment); !slices.Equal(got, kept) {
		t.Errorf("the archive has segments %v, and had %v", got, kept)
	}
	for _, name := range snapshots {
		a.remove(name)
	}
	id, revision := a.at()
	a.verified(id, revision, "later")
	a.segmented(id)
	s.Stop()
	from := &archivestate.Archive{Store: a.store, Realm: id, Log: slog.New(slog.DiscardHandler)}
	if _, err := from.Fold(a.Ctx, filepath.Join(t.TempDir(), "state"), 0, state.Config{}); err != nil {
		t.Errorf("the archive cannot be restored: %v", err)
	}
}

// For clients a damaged segment is as one that is missing: they get Expired with what is missing, also if they begin there, and
// what follows it can be read, also from its first commit on. A warning names it. States are not folded past it.
func TestReadersPassDamagedSegment(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a", "b", "c", "d", "e", "f", "g", "h")
	a.segments()
	a.snapshot()
	a.cut(2)
	segments := a.entries(archive.Segment)
	name := segments[len(segments)/2]
	bad, _ := archive.ParseName(name)
	a.damage(name)
	last := checkpoint(t, a.dir).GetSequence()
	s, reader := a.past(a.store, past.Limits{})
	operator := a.as(bus.RoleOperator)
	read := func(opts ...client.LogOption) (sequences []uint64, err error) {
		for c, err := range operator.Log().Read(a.Ctx, opts...) {
			if err != nil {
				return sequences, err
			}
			sequences = append(sequences, c.GetSequence())
		}
		return sequences, nil
	}
	behind := make([]uint64, 0, last)
	for at := bad.Last + 1; at <= last; at++ {
		behind = append(behind, at)
	}
	want := fmt.Sprintf("commits %d to %d with the revisions ", bad.First, bad.Last)
	for range 2 { // the second time it is known
		for what, from := range map[string]client.LogOption{
			"from the first commit": client.FromSequence(1), "from the first revision": client.FromRevision(1),
			"from the damaged segment on": client.FromSequence(bad.First), "from its last commit on": client.FromSequence(bad.Last),
		} {
			if got, err := read(from); !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), want) || len(got) > 0 && got[len(got)-1] != bad.First-1 {
				t.Errorf("%s: %v, %v, want %q", what, got, err, want)
			}
		}
		if got, err := read(client.FromSequence(bad.Last + 1)); err != nil || len(got) < len(behind) || !slices.Equal(got[:len(behind)], behind) {
			t.Errorf("behind the damaged segment: %v, %v, want %v", got, err, behind)
		}
		if _, err := reader.At(a.Ctx, client.Moment{Revision: 1}); !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), "the oldest revision that can be shown is ") {
			t.Errorf("the past before the damaged segment: %v", err)
		}
		if _, err := operator.Operations().Verify(a.Ctx, client.FromFirstCommit(true)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("verified from the first commit on: %v, want one that names %s", err, name)
		}
	}
	a.warned(lifecycle.WarnArchiveDamaged, name, "delete it, and copy it from another archive")
	s.Stop()
}
