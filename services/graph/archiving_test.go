package graph_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
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
func (a *archived) archiving(ctx context.Context, dir string, store archive.Store, r *prometheus.Registry) *service {
	a.t.Helper()
	return serve(a.t, graphConn(a.t, a.n), dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.Registry = store, soon, r
	}).writing(ctx)
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
	s := a.archiving(ctx, a.dir, a.store, registry)
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
	if got := counted(t, registry, "coppice_graph_archive_failures_total"); got != 0 {
		t.Errorf("%v failures", got)
	}
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
	_, first, err := log.Last(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	commit, err := log.Get(ctx, first)
	if err != nil {
		a.t.Fatal(err)
	}
	h, err := commitcodec.ReadHeader(commit)
	if err != nil {
		a.t.Fatal(err)
	}
	return h.RealmID, s.GetRevision()
}

// flipping is an archive that stores damaged segments while on is set.
type flipping struct {
	archive.Store
	on atomic.Bool
}

func (f *flipping) Put(ctx context.Context, name string, in io.Reader, size int64) error {
	if n, _ := archive.ParseName(name); n.Kind != archive.Segment || !f.on.Load() {
		return f.Store.Put(ctx, name, in, size)
	}
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	b[len(b)/3] ^= 1
	return f.Store.Put(ctx, name, bytes.NewReader(b), size)
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

// If a segment in the archive is damaged, no snapshot is stored or recorded as verified. The damage
// is reported, and the realm goes on. When the damaged segments are deleted, they are
// archived again.
func TestArchiverFindsDamage(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	registry := prometheus.NewRegistry()
	store := &flipping{Store: a.store}
	store.on.Store(true)
	s := a.archiving(ctx, a.dir, store, registry)
	create(ctx, t, application(t, a.n), "one", "two", "three")
	testkit.WaitFor(t, ctx, "failures", func() bool {
		return counted(t, registry, "coppice_graph_archive_failures_total") >= 2
	})
	operator := client.New(testkit.Conn(t, a.n, bus.RoleOperator), client.WithActor(bus.RoleOperator))
	testkit.WaitFor(t, ctx, "a warning that names a segment", func() bool {
		warnings, err := operator.Warnings(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(warnings, func(w client.Warning) bool {
			return w.Reason == lifecycle.WarnUnarchived && strings.Contains(w.Message, "/segment/")
		})
	})
	create(ctx, t, application(t, a.n), "four")
	damaged := a.entries(ctx, archive.Segment)
	if len(damaged) == 0 {
		t.Error("no segment was stored")
	}
	for _, kind := range []archive.Kind{archive.Snapshot, archive.Verified} {
		if got := a.entries(ctx, kind); len(got) > 0 {
			t.Errorf("with damaged segments the archive has %v", got)
		}
	}
	store.on.Store(false)
	for _, name := range a.entries(ctx, archive.Segment) {
		if err := a.store.Delete(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	id, revision := a.at(ctx)
	a.verified(ctx, id, revision-1, "five")
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
	s := a.archiving(ctx, t.TempDir(), a.store, prometheus.NewRegistry())
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
