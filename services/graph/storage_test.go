package graph_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
)

// A realm shows what it takes on disks, and when its log is cut; metrics have the same.
func TestStorage(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	registry := prometheus.NewRegistry()
	s := a.serve(a.dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.Registry, c.CheckLog = a.store, soon, registry, soon.Interval
		c.HasFree(func() uint64 { return 1 << 39 })
	}).writing()
	a.create("first")
	id, _ := a.at()
	a.verified(id, 0, "a")
	operator := a.as(bus.RoleOperator)
	got, err := operator.Operations().Storage(a.Ctx)
	must.Succeed(t, err)
	if got.GetLogBytes() == 0 || got.GetStateBytes() == 0 || got.GetArchiveBytes() == 0 || got.GetArchiveEntries() < 3 || got.GetArchiveError() != "" || !got.GetArchived() ||
		got.GetCutAtBytes() != 1<<29 || got.GetCutAt() != 0 || got.GetDiskBytes() != 1<<40 || got.GetDiskFreeBytes() != 1<<39 {
		t.Errorf("the realm takes %v", got)
	}
	for name, least := range map[string]float64{
		"coppice_graph_state_bytes": 1, "coppice_graph_log_bytes": 1, "coppice_graph_log_replicas": 2, "coppice_graph_archive_bytes": 1,
		"coppice_graph_log_cut_at_bytes": 1 << 29, "coppice_graph_disk_bytes": 1 << 40, "coppice_graph_disk_free_bytes": 1 << 39,
	} {
		a.WaitFor(name, func() bool { return metric(t, registry, name) >= least })
	}
	s.Stop()
	bytes, entries, err := archive.Size(a.Ctx, a.store, id)
	if err != nil || bytes < int64(got.GetArchiveBytes()) && entries == int(got.GetArchiveEntries()) {
		t.Errorf("the archive has %d bytes in %d entries, %v; %v were shown", bytes, entries, err, got)
	}
}

// A realm says why a cut that is due is not made, and which retention bounds its archive.
func TestCutWaits(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	b.start(b.store, func(c *graph.Config) {
		c.ArchiveRetention = lifecycle.Retention{Bytes: 10 << 30, Age: 365 * 24 * time.Hour}
	})
	storage := func() *client.Storage {
		s, err := b.as(bus.RoleOperator).Operations().Storage(b.Ctx)
		must.Succeed(t, err)
		return s
	}
	if s := storage(); s.GetCutWaits() != "" || s.GetArchiveRetention() != "10GiB,365d" || s.GetCutAtBytes() != retained/2 {
		t.Errorf("a new realm takes %v", s)
	}
	for b.extent().Bytes <= retained/2 {
		b.writes(0)
	}
	if s := storage(); !strings.Contains(s.GetCutWaits(), "commits are cut when they are 3 minutes older than the newest commit") || s.GetLogBytes() <= retained/2 {
		t.Errorf("with commits that may not be cut, the realm takes %v", s)
	}
	b.set("1GiB")
	if s := storage(); s.GetCutWaits() != "" {
		t.Errorf("within its retention, the realm takes %v", s)
	}
	b.s.Stop()
}

// A warning says that the disk of the state is almost full, from 85% on.
func TestDiskFilling(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	var free, looks atomic.Uint64
	free.Store(1 << 40 / 100 * 16)
	s := a.serve(a.dir, func(c *graph.Config) {
		c.CheckLog = soon.Interval
		c.HasFree(func() uint64 {
			looks.Add(1)
			return free.Load()
		})
	}).writing()
	a.create("first")
	operator := a.as(bus.RoleOperator)
	warned := func() bool {
		warnings, err := operator.Warnings(a.Ctx, "")
		must.Succeed(t, err)
		return slices.ContainsFunc(warnings, func(w client.Warning) bool {
			return w.Reason == lifecycle.WarnDiskFilling && strings.Contains(w.Message, "is 86% full: 143 GiB are free")
		})
	}
	before := looks.Load()
	a.WaitFor("looks at the disk", func() bool { return looks.Load() > before+6 })
	if warned() {
		t.Error("a disk that is 84% full is warned of")
	}
	free.Store(1 << 40 / 100 * 14)
	a.WaitFor("a warning", warned)
	s.Stop()
}
