package graph_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// soon are limits with which an archiver puts small segments, and a snapshot after each.
var soon = archiver.Limits{SegmentBytes: 1000, SegmentAge: time.Millisecond, SnapshotBytes: 1, Interval: 2 * time.Millisecond, Pause: time.Millisecond}

// archiving starts a graph service that archives into a store.
func (a *archived) archiving(dir string, store archive.Store, r *prometheus.Registry, out *testkit.Output) *service {
	a.Helper()
	return a.serve(dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.Registry, c.Log = store, soon, r, slog.New(slog.NewTextHandler(out, nil))
	}).writing()
}

// archives checks by the log of a graph service that archiving never failed, except that it took too
// long on a busy machine and was tried again.
func archives(tb testing.TB, out *testkit.Output, registry *prometheus.Registry) {
	tb.Helper()
	slow := 0
	for line := range strings.Lines(out.String()) {
		switch {
		case !strings.Contains(line, "cannot archive the log"):
		case strings.Contains(line, "deadline exceeded"), strings.Contains(line, "was compared with the archive"):
			slow++
		default:
			tb.Error(line)
		}
	}
	if failures := int(metric(tb, registry, "coppice_graph_archive_failures_total")); failures != slow {
		tb.Errorf("%d failures, of which %d took too long", failures, slow)
	}
}

// verified creates objects until the archive has a verified snapshot after a revision, and
// returns its record and their names.
func (a *archived) verified(realm [16]byte, revision uint64, prefix string) (v archive.Verification, names []string) {
	a.Helper()
	c := a.application()
	a.WaitFor(fmt.Sprintf("a verified snapshot after revision %d", revision), func() bool {
		names = append(names, fmt.Sprintf("%s-%04d", prefix, len(names)))
		create(a.Ctx, a, c, names[len(names)-1])
		_, found, ok, err := archive.NewestVerified(a.Ctx, a.store, realm)
		must.Succeed(a, err)
		v = found
		return ok && found.Revision > revision
	})
	return v, names
}

// segmented waits until segments have all commits of the log.
func (a *archived) segmented(realm [16]byte) {
	a.Helper()
	last, err := a.log().LastCommit(a.Ctx)
	must.Succeed(a, err)
	a.WaitFor("segments with all commits", func() bool {
		segments := a.items(realm)
		return len(segments) > 0 && segments[len(segments)-1].Last >= last
	})
}

// A realm with an archive archives its log in segments, and snapshots that it verifies with them.
// The archive alone has the whole state, and an empty replica starts from it when the stream has
// the first commits no more.
func TestArchiver(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	registry := prometheus.NewRegistry()
	var out testkit.Output
	s := a.archiving(a.dir, a.store, registry, &out)
	a.create("first")
	id, revision := a.at()
	first, names := a.verified(id, 0, "one")
	second, more := a.verified(id, max(first.Revision, revision), "two")
	names = slices.Concat([]string{"first"}, names, more)
	if first.From >= first.Sequence || second.From < first.Sequence || second.Hash == first.Hash {
		t.Errorf("the snapshots were verified as %+v and %+v", first, second)
	}
	a.segmented(id)
	_, revision = a.at()
	a.WaitFor("the metrics", func() bool {
		return metric(t, registry, "coppice_graph_archived_revision") >= float64(revision+second.Revision)
	})
	s.Stop()
	last := checkpoint(t, a.dir)
	archives(t, &out, registry)
	if segments := a.entries(archive.Segment); len(segments) < 3 {
		t.Errorf("the archive has the segments %v, want at least 3", segments)
	}
	a.undamaged()
	from := &archivestate.Archive{Store: a.store, Realm: id, Log: slog.New(slog.DiscardHandler)}
	if f, err := from.Fold(a.Ctx, filepath.Join(t.TempDir(), "state"), 0, state.Config{}); err != nil || f.Revision != last.GetRevision() || f.Snapshot < second.Sequence {
		t.Errorf("the archive gives %+v, %v; the state is at %v", f, err, last)
	}
	a.truncate(1)
	if out := a.startsWith(t.TempDir(), names...); !strings.Contains(out, "started from a snapshot") {
		t.Errorf("an empty replica did not start from the archive: %s", out)
	}
}

// at returns the id of the realm, and its last revision.
func (a *archived) at() (realm [16]byte, revision uint64) {
	a.Helper()
	s, err := a.application().Status(a.Ctx)
	must.Succeed(a, err)
	log := a.log()
	last, _, err := log.Last(a.Ctx) // the first may be cut before it is read
	must.Succeed(a, err)
	m, err := log.Message(a.Ctx, last)
	must.Succeed(a, err)
	h, _ := log.Keys().Check(m) // also of a commit with another key
	return h.RealmID, s.GetRevision()
}

// items returns the segments of a realm.
func (a *archived) items(realm [16]byte) []archive.Item {
	a.Helper()
	segments, err := archive.Segments(a.Ctx, a.store, realm)
	must.Succeed(a, err)
	return segments
}

// undamaged verifies the archive, which has one realm from its first commit on, and returns what that found.
func (a *archived) undamaged() archive.RealmReport {
	a.Helper()
	var entries []archive.Entry
	for e, err := range a.store.List(a.Ctx, "") {
		must.Succeed(a, err)
		entries = append(entries, e)
	}
	reports, err := archive.Verify(a.Ctx, a.store, entries, snapshot.CheckEntry, func(int64) {})
	if err != nil || len(reports) != 1 || len(reports[0].Problems) > 0 || reports[0].First != 1 {
		a.Fatalf("the archive is verified as %+v, %v; want one realm from commit 1 on, without problems", reports, err)
	}
	return reports[0]
}

// entries returns the names of the entries of a kind.
func (a *archived) entries(kind archive.Kind) (names []string) {
	a.Helper()
	for e, err := range a.store.List(a.Ctx, "") {
		must.Succeed(a, err)
		if n, _ := archive.ParseName(e.Name); n.Kind == kind {
			names = append(names, e.Name)
		}
	}
	return names
}

// Temporary files that an archiver has left are removed at the next start, also without an archive.
func TestArchiverLeavesNothing(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	left := filepath.Join(a.dir, ".archiver", realm, "verify")
	must.Succeed(t, os.MkdirAll(left, 0o700))
	s := a.serve(a.dir, nil).writing()
	a.WaitFor("the files to be removed", func() bool {
		_, err := os.Stat(filepath.Dir(left))
		return errors.Is(err, os.ErrNotExist)
	})
	s.Stop()
}

// A restored realm, whose stream begins behind its first snapshot, is archived from there.
func TestArchiverOfRestoredRealm(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.segments()
	begun := a.restore(0)
	s := a.archiving(t.TempDir(), a.store, prometheus.NewRegistry(), &testkit.Output{})
	operator := a.as(bus.RoleOperator)
	if _, err := operator.Operations().Resume(a.Ctx); err != nil {
		t.Fatal(err)
	}
	id, revision := a.at()
	v, names := a.verified(id, revision, "two")
	if id != begun.RealmID || v.From < begun.Sequence {
		t.Errorf("realm %x was verified as %+v; it began as %+v", id, v, begun)
	}
	a.segmented(id)
	s.Stop()
	a.truncate(1)
	a.startsWith(t.TempDir(), append([]string{"one"}, names...)...)
}

// An archiver whose store hangs reports it, and releases the lease: a standby with a store that works
// archives the log.
func TestArchiverReleasesLease(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	registry := prometheus.NewRegistry()
	released := make(chan struct{})
	store := &archivetest.Hooked{Store: a.store, Before: func(_ context.Context, c archivetest.Call) error {
		if c.Of(archivetest.Put, archive.Segment) {
			<-released // and not ctx: a file system on a network may ignore it
		}
		return nil
	}}
	s := a.serve(a.dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.Registry = archive.Limit(store, 20*time.Millisecond), soon, registry
	}).writing()
	a.create("first")
	a.WaitFor("as many failures as calls may hang, and more", func() bool {
		return metric(t, registry, "coppice_graph_archive_failures_total") > 4
	})
	standby := a.serve(t.TempDir(), func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, soon })
	id, revision := a.at()
	a.verified(id, revision-1, "one")
	standby.Stop()
	close(released)
	a.verified(id, revision, "two")
	s.Stop()
}

// A warning about entries that cannot be used names the new one, and then those of the warning before, which it
// replaces.
func TestUnusableEntries(t *testing.T) {
	t.Parallel()
	u := graph.UnusableEntries{}
	for _, c := range []struct {
		name, want string
	}{
		{"b", "; b: damaged"},
		{"b", ""},
		{"a", "; a: damaged; b: damaged"},
		{"c", "; c: damaged; a: damaged; b: damaged"},
	} {
		message, due := u.Add(c.name, errors.New("damaged"))
		if due != (c.want != "") || !strings.HasSuffix(message, c.want) || strings.Count(message, "damaged") != strings.Count(c.want, "damaged") {
			t.Errorf("%s: %q, %t; want %q", c.name, message, due, c.want)
		}
	}
	message := ""
	for i := range 20 {
		message, _ = u.Add(fmt.Sprintf("d-%02d", i), errors.New("damaged "+strings.Repeat("é", 4000)+"; delete it"))
	}
	if strings.Count(message, "damaged") != 10 || strings.Count(message, "; delete it") != 7 || !strings.Contains(message, "passed over; d-19: ") || !strings.HasSuffix(message, "; and 13 more") || len(message) > 12<<10 || !utf8.ValidString(message) {
		t.Errorf("%q", message)
	}
}
