package graph_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
)

// A graph service prunes its archive: what precedes the two newest verified snapshots is deleted beyond the
// retention, and is not archived again although the stream still has it. A realm can keep
// everything by its setting. An empty replica starts from what is left.
func TestArchiverPrunes(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	var out testkit.Output
	registry := prometheus.NewRegistry()
	s := a.serve(a.dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.ArchiveRetention, c.Registry, c.Log = a.store, soon, lifecycle.Retention{Bytes: 1}, registry, slog.New(slog.NewTextHandler(&out, nil))
	}).writing()
	a.create("a-first")
	id, _ := a.at()
	names := []string{"a-first"}
	prunedBehind := func(revision uint64, prefix string) (v archive.Verification) {
		t.Helper()
		v, more := a.verified(id, revision, prefix)
		names = append(names, more...)
		a.WaitFor("the archive to be pruned", func() bool {
			segments := a.items(id)
			until, err := archive.PrunedUntil(a.Ctx, a.store, id)
			must.Succeed(t, err)
			_, newest, _, err := archive.NewestVerified(a.Ctx, a.store, id)
			must.Succeed(t, err)
			_, base, two, err := archive.VerifiedBefore(a.Ctx, a.store, id, newest.Sequence, func(string, error) {})
			must.Succeed(t, err)
			for _, s := range segments {
				if s.Last <= base.Sequence {
					return false
				}
			}
			return two && until >= base.Sequence && newest.Sequence >= v.Sequence && len(a.entries(archive.Snapshot)) == 2
		})
		return v
	}
	first := prunedBehind(0, "b")
	second := prunedBehind(first.Revision, "c")
	archives(t, &out, registry)
	if _, err := a.log().Get(a.Ctx, 1); err != nil {
		t.Errorf("the stream has no first commit any more: %v", err)
	}
	operator := a.as(bus.RoleOperator)
	if _, err := operator.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Create(a.Ctx, &coppicev1.Object{
		ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &coppicev1.ObjectMeta{Name: "settings"}, Spec: []byte(`{"archiveRetention":"all"}`),
	}); err != nil {
		t.Fatal(err)
	}
	_, revision := a.at()
	third, more := a.verified(id, max(revision, second.Revision), "d")
	fourth, last := a.verified(id, third.Revision, "e")
	names = append(append(names, more...), last...)
	if got := a.entries(archive.Snapshot); fourth.From < third.Sequence || len(got) < 2 {
		t.Errorf("with archiveRetention=all the archive has the snapshots %v", got)
	}
	a.segmented(id)
	s.Stop()
	a.truncate(1)
	if out := a.startsWith(t.TempDir(), names...); !strings.Contains(out, "started from a snapshot") {
		t.Errorf("an empty replica did not start from the archive: %s", out)
	}
}

// An archive that takes nothing more is pruned all the same as soon as its retention is lowered, which makes room.
func TestFullArchiveIsPruned(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	var full atomic.Bool
	store := &archivetest.Hooked{Store: a.store, Before: func(_ context.Context, c archivetest.Call) error {
		if full.Load() && c.Of(archivetest.Put, archive.Segment) {
			return errNoRoom
		}
		return nil
	}}
	clock := &clock{}
	s := a.serve(a.dir, func(c *graph.Config) {
		clock.ahead(c)
		c.Archive, c.ArchiveLimits = store, soon
	}).writing()
	a.create("first")
	id, _ := a.at()
	first, _ := a.verified(id, 0, "a")
	a.verified(id, first.Revision, "b")
	full.Store(true)
	clock.Set(time.Hour)
	operator := a.as(bus.RoleOperator)
	must.Succeed(t, settled(func() error {
		_, err := operator.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Apply(a.Ctx, &coppicev1.Object{
			ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &coppicev1.ObjectMeta{Name: "settings"}, Spec: []byte(`{"archiveRetention":"10m"}`),
		})
		return err
	}))
	a.WaitFor("the archive to be pruned", func() bool {
		until, err := archive.PrunedUntil(a.Ctx, a.store, id)
		must.Succeed(t, err)
		return until > 0
	})
	s.Stop()
}

// Small segments of a realm that is archived often are merged, and their parts deleted later. The archive is complete
// all the time.
func TestSegmentsAreMerged(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	limits := soon
	limits.SegmentBytes, limits.Prune = 4<<20, time.Millisecond
	s := a.serve(a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, limits }).writing()
	a.create("a-first")
	id, _ := a.at()
	names := []string{"a-first"}
	a.WaitFor("a merged segment whose parts were deleted", func() bool {
		names = append(names, fmt.Sprintf("b-%04d", len(names)))
		a.create(names[len(names)-1])
		segments := a.items(id)
		return slices.ContainsFunc(segments, func(s archive.Item) bool { return s.First == 1 && s.Last >= 16 }) && len(archive.Covered(segments)) == 0
	})
	a.segmented(id)
	s.Stop()
	a.undamaged()
	a.truncate(1)
	a.startsWith(t.TempDir(), names...)
}
