package graph_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/tail"
	archivedlog "github.com/coppice-gc/coppice/services/graph/wholelog"
)

// hanging is an archive that opens no entry, and with lists does not list them either, before it is released.
type hanging struct {
	archivetest.Hooked
	waits, released chan struct{}
}

func newHanging(store archive.Store, lists bool) *hanging {
	h := &hanging{waits: make(chan struct{}, 1), released: make(chan struct{})}
	h.Store, h.Before = store, func(_ context.Context, c archivetest.Call) error {
		if c.Op == archivetest.Open || lists && c.Op == archivetest.List {
			select {
			case h.waits <- struct{}{}:
			default:
			}
			<-h.released // and not ctx: a file system that hangs ignores it
		}
		return nil
	}
	return h
}

// A read of commits that neither the stream nor the archive has fails, and a replica that knows them
// begins with a snapshot.
func TestCommitsThatAreNowhere(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	behind := copyOf(t, a.dir)
	a.creates("three", "four")
	a.snapshot()
	a.creates("five")
	a.truncate(2)
	log := archivedlog.New(a.Ctx, a.log(), a.store, [16]byte{})
	var broken *eventlog.BrokenError
	if err := log.Follow(a.Ctx, 1, func(eventlog.Message) error { return nil }); !errors.As(err, &broken) || broken.Position != 1 {
		t.Errorf("from the beginning: %v", err)
	}
	if err := replay.CheckTail(a.Ctx, tail.Of(checkpoint(t, behind)), log, realm, behind, false); err != nil {
		t.Errorf("a mark whose next commit was cut: %v", err)
	}
	a.startsWith(behind, "five", "four", "one", "three", "two")
}

// While a reader of the log waits for an archive that hangs, others read what the stream has, and
// learn that the archive cannot be read.
func TestHangingArchive(t *testing.T) {
	t.Parallel()
	for name, lists := range map[string]bool{"open": false, "list": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testHangingArchive(t, lists)
		})
	}
}

func testHangingArchive(tb testing.TB, lists bool) {
	tb.Helper()
	a := newArchived(tb)
	a.creates("one", "two", "three", "four")
	a.segments()
	a.truncate(1)
	store := newHanging(a.store, lists)
	log := archivedlog.New(a.Ctx, a.log(), store, [16]byte{})
	first := errors.New("the first commit")
	read := make(chan error, 1)
	go func() {
		_, err := log.Read(a.Ctx, 1, 1, 1<<20, func(eventlog.Message) error { return first })
		read <- err
	}()
	testkit.Receive(tb, a.Ctx, "the first read to wait", store.waits)
	e, err := log.Readable(a.Ctx)
	if err != nil || e.First != e.Last || e.Unavailable == nil {
		tb.Errorf("the log has %+v, %v, want its last message only", e, err)
	}
	if _, err := log.Get(a.Ctx, e.Last); err != nil {
		tb.Error(err)
	}
	close(store.released)
	if err := testkit.Receive(tb, a.Ctx, "the first read", read); !errors.Is(err, first) {
		tb.Error(err)
	}
	if e, err := log.Readable(a.Ctx); err != nil || e.First != 1 || e.Unavailable != nil {
		tb.Errorf("when the archive answers again, the log has %+v, %v", e, err)
	}
}

// A replica that needs an archive which hangs waits for it, and says so: in its log, which does not call it
// JetStream, by the metric, and with a warning. It starts when the archive answers.
func TestStartWithHangingArchive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ lists, announced bool }{
		"list, to find out whether the log was cut": {true, false},
		"open, to find out whether the log was cut": {false, false},
		"list, to find a snapshot":                  {true, true},
		"open, to read a snapshot":                  {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStartWithHangingArchive(t, test.lists, test.announced)
		})
	}
}

func testStartWithHangingArchive(tb testing.TB, lists, announced bool) {
	tb.Helper()
	a := newArchived(tb)
	a.creates("one", "two")
	a.snapshot()
	a.creates("three")
	a.segments()
	if announced {
		a.cut(1)
	} else {
		a.truncate(1)
	}
	registry, out := prometheus.NewRegistry(), &testkit.Output{}
	store := newHanging(a.store, lists)
	s := a.serve(tb.TempDir(), func(c *graph.Config) {
		c.Archive, c.ArchiveLimits, c.Registry, c.Log = archive.Limit(store, 20*time.Millisecond), never, registry, slog.New(slog.NewTextHandler(out, nil))
	})
	testkit.WaitFor(tb, a.Ctx, "failures of the archive", func() bool { return metric(tb, registry, "coppice_graph_archive_failures_total") > 1 })
	if text := out.String(); !strings.Contains(text, "the archive does not answer") || strings.Contains(text, "waiting for JetStream") {
		tb.Errorf("logged %s", text)
	}
	if metric(tb, registry, "coppice_graph_realm_failures_total") > 0 {
		tb.Errorf("the realm has failed: %s", out.String())
	}
	close(store.released)
	s.writing()
	a.has("one", "three", "two")
	a.warned(lifecycle.WarnUnarchived, "the archive does not answer")
	s.Stop()
}
