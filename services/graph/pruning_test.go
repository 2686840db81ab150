package graph_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
)

// A graph service prunes its archive: what precedes the newest verified snapshot is deleted beyond the
// retention, and is not archived again although the stream still has it. A realm can keep
// everything by its setting. An empty replica starts from what is left.
func TestArchiverPrunes(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	var out logged
	registry := prometheus.NewRegistry()
	s := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.ArchiveRetention, c.Registry, c.Log = a.store, soon, lifecycle.Retention{Bytes: 1}, registry, slog.New(slog.NewTextHandler(&out, nil))
	}).writing(ctx)
	create(ctx, t, application(t, a.n), "a-first")
	id, _ := a.at(ctx)
	names := []string{"a-first"}
	prunedBehind := func(revision uint64, prefix string) (v archive.Verification) {
		t.Helper()
		v, more := a.verified(ctx, id, revision, prefix)
		names = append(names, more...)
		testkit.WaitFor(t, ctx, "the archive to be pruned", func() bool {
			segments, err := archive.Segments(ctx, a.store, id)
			if err != nil {
				t.Fatal(err)
			}
			until, err := archive.PrunedUntil(ctx, a.store, id)
			if err != nil {
				t.Fatal(err)
			}
			_, newest, _, err := archive.NewestVerified(ctx, a.store, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range segments {
				if s.Last <= newest.Sequence {
					return false
				}
			}
			return until >= v.Sequence && len(a.entries(ctx, archive.Snapshot)) == 1
		})
		return v
	}
	first := prunedBehind(0, "b")
	second := prunedBehind(first.Revision, "c")
	archives(t, &out, registry)
	if _, err := a.log().Get(ctx, 1); err != nil {
		t.Errorf("the stream has no first commit any more: %v", err)
	}
	operator := client.New(testkit.Conn(t, a.n, bus.RoleOperator), client.WithActor(bus.RoleOperator))
	if _, err := operator.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Create(ctx, &coppicev1.Object{
		ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &coppicev1.ObjectMeta{Name: "settings"}, Spec: []byte(`{"archiveRetention":"all"}`),
	}); err != nil {
		t.Fatal(err)
	}
	_, revision := a.at(ctx)
	third, more := a.verified(ctx, id, max(revision, second.Revision), "d")
	fourth, last := a.verified(ctx, id, third.Revision, "e")
	names = append(append(names, more...), last...)
	if got := a.entries(ctx, archive.Snapshot); fourth.From < third.Sequence || len(got) < 2 {
		t.Errorf("with archiveRetention=all the archive has the snapshots %v", got)
	}
	a.segmented(ctx, id)
	s.stop(ctx)
	a.truncate(1)
	if out := a.has(t.TempDir(), names...); !strings.Contains(out, "started from a snapshot") {
		t.Errorf("an empty replica did not start from the archive: %s", out)
	}
}
