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

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/bootstrap"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// soon are limits with which an archiver puts small segments, and a snapshot after each.
var soon = archiver.Limits{SegmentBytes: 1000, SegmentAge: time.Millisecond, SnapshotBytes: 1, Interval: 2 * time.Millisecond, Pause: time.Millisecond}

// archiving starts a graph service that archives into a store.
func (a *archived) archiving(ctx context.Context, dir string, store archive.Store, r *prometheus.Registry, out *logged) *service {
	a.t.Helper()
	return serve(a.t, graphConn(a.t, a.n), dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.Registry, c.Log = store, soon, r, slog.New(slog.NewTextHandler(out, nil))
	}).writing(ctx)
}

// archives checks by the log of a graph service that archiving never failed, except that it took too
// long on a busy machine and was tried again.
func archives(t *testing.T, out *logged, registry *prometheus.Registry) {
	t.Helper()
	slow := 0
	for line := range strings.Lines(out.String()) {
		switch {
		case !strings.Contains(line, "cannot archive the log"):
		case strings.Contains(line, "deadline exceeded"), strings.Contains(line, "was compared with the archive"):
			slow++
		default:
			t.Error(line)
		}
	}
	if failures := int(counted(t, registry, "coppice_graph_archive_failures_total")); failures != slow {
		t.Errorf("%d failures, of which %d took too long", failures, slow)
	}
}

// verified creates objects until the archive has a verified snapshot after a revision, and
// returns its record and their names.
func (a *archived) verified(ctx context.Context, realm [16]byte, revision uint64, prefix string) (v archive.Verification, names []string) {
	a.t.Helper()
	c := application(a.t, a.n)
	testkit.WaitFor(a.t, ctx, fmt.Sprintf("a verified snapshot after revision %d", revision), func() bool {
		names = append(names, fmt.Sprintf("%s-%04d", prefix, len(names)))
		create(ctx, a.t, c, names[len(names)-1])
		_, found, ok, err := archive.NewestVerified(ctx, a.store, realm)
		if err != nil {
			a.t.Fatal(err)
		}
		v = found
		return ok && found.Revision > revision
	})
	return v, names
}

// segmented waits until segments have all commits of the log.
func (a *archived) segmented(ctx context.Context, realm [16]byte) {
	a.t.Helper()
	last, err := a.log().LastCommit(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	testkit.WaitFor(a.t, ctx, "segments with all commits", func() bool {
		segments, err := archive.Segments(ctx, a.store, realm)
		if err != nil {
			a.t.Fatal(err)
		}
		return len(segments) > 0 && segments[len(segments)-1].Last >= last
	})
}

// A realm with an archive archives its log in segments, and snapshots that it verifies with them.
// The archive alone has the whole state, and an empty replica starts from it when the stream has
// the first commits no more.
func TestArchiver(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	registry := prometheus.NewRegistry()
	var out logged
	s := a.archiving(ctx, a.dir, a.store, registry, &out)
	create(ctx, t, application(t, a.n), "first")
	id, revision := a.at(ctx)
	first, names := a.verified(ctx, id, 0, "one")
	second, more := a.verified(ctx, id, max(first.Revision, revision), "two")
	names = slices.Concat([]string{"first"}, names, more)
	if first.From >= first.Sequence || second.From < first.Sequence || second.Hash == first.Hash {
		t.Errorf("the snapshots were verified as %+v and %+v", first, second)
	}
	a.segmented(ctx, id)
	_, revision = a.at(ctx)
	testkit.WaitFor(t, ctx, "the metrics", func() bool {
		return metric(t, registry, "coppice_graph_archived_revision") >= float64(revision+second.Revision)
	})
	s.stop(ctx)
	last := checkpoint(t, a.dir)
	archives(t, &out, registry)
	var entries []archive.Entry
	segments := 0
	for e, err := range a.store.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
		if n, _ := archive.ParseName(e.Name); n.Kind == archive.Segment {
			segments++
		}
	}
	if segments < 3 {
		t.Errorf("%d segments", segments)
	}
	reports, err := archive.Verify(ctx, a.store, entries, snapshot.CheckEntry, func(int64) {})
	if err != nil || len(reports) != 1 || len(reports[0].Problems) > 0 || reports[0].First != 1 {
		t.Errorf("the archive is verified as %+v, %v", reports, err)
	}
	from := &bootstrap.Archive{Store: a.store, Realm: id, Log: slog.New(slog.DiscardHandler)}
	if f, err := from.Fold(ctx, filepath.Join(t.TempDir(), "state"), 0, state.Config{}); err != nil || f.Revision != last.GetRevision() || f.Snapshot < second.Sequence {
		t.Errorf("the archive gives %+v, %v; the state is at %v", f, err, last)
	}
	a.truncate(1)
	if out := a.has(t.TempDir(), names...); !strings.Contains(out, "started from a snapshot") {
		t.Errorf("an empty replica did not start from the archive: %s", out)
	}
}

// at returns the id of the realm, and its last revision.
func (a *archived) at(ctx context.Context) (realm [16]byte, revision uint64) {
	a.t.Helper()
	s, err := application(a.t, a.n).Status(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	log := a.log()
	last, _, err := log.Last(ctx) // the first may be cut before it is read
	if err != nil {
		a.t.Fatal(err)
	}
	m, err := log.Message(ctx, last)
	if err != nil {
		a.t.Fatal(err)
	}
	h, _ := log.Keys().Check(m) // also of a commit with another key
	return h.RealmID, s.GetRevision()
}

// entries returns the names of the entries of a kind.
func (a *archived) entries(ctx context.Context, kind archive.Kind) (names []string) {
	a.t.Helper()
	for e, err := range a.store.List(ctx, "") {
		if err != nil {
			a.t.Fatal(err)
		}
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
	ctx := testkit.Context(t)
	left := filepath.Join(a.dir, ".archiver", realm, "verify")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	s := serve(t, graphConn(t, a.n), a.dir, nil).writing(ctx)
	testkit.WaitFor(t, ctx, "the files to be removed", func() bool {
		_, err := os.Stat(filepath.Dir(left))
		return errors.Is(err, os.ErrNotExist)
	})
	s.stop(ctx)
}

// A restored realm, whose stream begins behind its first snapshot, is archived from there.
func TestArchiverOfRestoredRealm(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.segments()
	begun := a.restore(0)
	ctx := testkit.Context(t)
	s := a.archiving(ctx, t.TempDir(), a.store, prometheus.NewRegistry(), &logged{})
	operator := client.New(testkit.Conn(t, a.n, bus.RoleOperator), client.WithActor(bus.RoleOperator))
	if _, err := operator.Operations().Resume(ctx); err != nil {
		t.Fatal(err)
	}
	id, revision := a.at(ctx)
	v, names := a.verified(ctx, id, revision, "two")
	if id != begun.RealmID || v.From < begun.Sequence {
		t.Errorf("realm %x was verified as %+v; it began as %+v", id, v, begun)
	}
	a.segmented(ctx, id)
	s.stop(ctx)
	a.truncate(1)
	a.has(t.TempDir(), append([]string{"one"}, names...)...)
}

// An archiver whose store hangs reports it, and releases the lease: a standby with a store that works
// archives the log.
func TestArchiverReleasesLease(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	registry := prometheus.NewRegistry()
	released := make(chan struct{})
	store := &archivetest.Hooked{Store: a.store, Before: func(_ context.Context, c archivetest.Call) error {
		if c.Of(archivetest.Put, archive.Segment) {
			<-released // and not ctx: a file system on a network may ignore it
		}
		return nil
	}}
	s := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.Registry = archive.Limit(store, 20*time.Millisecond), soon, registry
	}).writing(ctx)
	create(ctx, t, application(t, a.n), "first")
	testkit.WaitFor(t, ctx, "as many failures as calls may hang, and more", func() bool {
		return counted(t, registry, "coppice_graph_archive_failures_total") > 4
	})
	standby := serve(t, graphConn(t, a.n), t.TempDir(), func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, soon })
	id, revision := a.at(ctx)
	a.verified(ctx, id, revision-1, "one")
	standby.stop(ctx)
	close(released)
	a.verified(ctx, id, revision, "two")
	s.stop(ctx)
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
