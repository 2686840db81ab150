package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
)

// A process that loses its connections at any step of a cut, as in a crash, leaves a log that
// another one continues: it finds no damage, loses no commit, and cuts further.
func TestRetentionCrash(t *testing.T) {
	t.Parallel()
	for _, step := range []string{archiver.FailVerified, archiver.FailAnnounced, archiver.FailCut} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := newBounded(t)
			nc := b.connect()
			var armed atomic.Bool
			crashed := make(chan struct{})
			b.nc = &nc
			b.start(b.store, func(c *graph.Config) {
				c.LeaseTTL = 5 * time.Second // which the next process waits for
				c.Failpoint = func(at string) {
					if at == step && armed.CompareAndSwap(true, false) {
						nc.log.Close()
						nc.answers.Close()
						close(crashed)
					}
				}
			})
			b.cut(1)
			armed.Store(true)
			short, cancel := context.WithCancel(b.Ctx)
			defer cancel()
			go func() {
				select {
				case <-crashed:
					cancel()
				case <-b.Ctx.Done():
				}
			}()
			doubtful := ""
			for doubtful == "" {
				doubtful, _ = b.tries(short, 4*time.Minute)
				// As in cut, a writer that is faster than the archiver is not what is tested.
				b.WaitFor("room for more commits, or the crash", func() bool { return short.Err() != nil || b.extent().Bytes < retained/8*7 })
			}
			b.s.Cancel()
			_ = b.s.Wait() // with any error: it was cut off
			e, a := b.extent(), b.announced()
			if a.Position+1 < e.First || step == archiver.FailAnnounced && a.Position < e.First || step == archiver.FailCut && a.Position+1 != e.First {
				t.Errorf("the stream has %+v, and was cut as %+v", e, a)
			}
			s := b.serve(b.dir, b.store, func(c *graph.Config) { c.Registry = nil }).writing()
			c := b.application()
			if err := settled(func() error {
				_, err := c.Resource(configMaps, "a").Create(b.Ctx, configMap(doubtful))
				return err
			}); err != nil && !errors.Is(err, client.ErrAlreadyExists) {
				t.Fatal(err)
			}
			b.names = append(b.names, doubtful)
			b.cut(e.First)
			if v := b.verify(); v.GetDifference() != "" {
				t.Errorf("the state differs from the log: %s", v.GetDifference())
			}
			b.complete()
			if out := b.out.String(); strings.Contains(out, "damaged") {
				t.Errorf("the cut is taken for damage: %s", out)
			}
			s.Stop()
		})
	}
}

// complete checks that the log, with its archive, has every object that was created.
func (b *bounded) complete() {
	b.Helper()
	if objects := b.history(b.as(bus.RoleOperator).Log().Read(b.Ctx, client.FromRevision(1))); objects != len(b.names) {
		b.Errorf("the history has %d objects, want %d", objects, len(b.names))
	}
}

// While the archive fails nothing is cut, the log grows, and a warning says why. When the archive
// works again, the log is cut to its retention.
func TestRetentionWhileArchiveFails(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	var full atomic.Bool
	store := &archivetest.Hooked{Store: b.store, Before: func(_ context.Context, c archivetest.Call) error {
		if full.Load() && c.Op == archivetest.Put {
			return errNoRoom
		}
		return nil
	}}
	b.start(store, nil)
	b.cut(1)
	failures := metric(t, b.registry, "coppice_graph_archive_failures_total")
	full.Store(true)
	b.writes(4 * time.Minute)
	b.WaitFor("the archive to fail", func() bool { return metric(t, b.registry, "coppice_graph_archive_failures_total") > failures })
	for b.extent().Bytes <= retained {
		b.writes(4 * time.Minute)
	}
	first := b.extent().First
	operator := b.as(bus.RoleOperator)
	b.WaitFor("warnings of the archive and of the log", func() bool {
		warnings, err := operator.Warnings(b.Ctx, "")
		must.Succeed(t, err)
		reasons := 0
		for _, reason := range []string{lifecycle.WarnUnarchived, lifecycle.WarnUncut} {
			if slices.ContainsFunc(warnings, func(w client.Warning) bool {
				return w.Reason == reason && strings.Contains(w.Message, errNoRoom.Error())
			}) {
				reasons++
			}
		}
		return reasons == 2
	})
	b.writes(4 * time.Minute)
	if e := b.extent(); e.First != first || e.Bytes <= retained {
		t.Errorf("while the archive failed the log was cut: it has %+v, and began at %d", e, first)
	}
	full.Store(false)
	b.WaitFor("the log to be within its retention", func() bool { return b.extent().Bytes <= retained/2 })
	b.complete()
	b.s.Stop()
}

// Commits with ids of commands that are kept stay in the stream, though it is larger than its
// retention. A change of the retention takes effect without a restart.
func TestRetentionKeepsIDs(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	b.start(b.store, nil)
	id, _ := b.at()
	verified := func() uint64 {
		_, v, _, err := archive.NewestVerified(b.Ctx, b.store, id)
		must.Succeed(t, err)
		return v.Position
	}
	for seen := verified(); b.extent().Bytes < 2*retained || verified() <= seen; {
		if b.extent().Bytes < 2*retained {
			seen = verified()
		}
		b.writes(0)
	}
	if e := b.extent(); e.First != 1 {
		t.Errorf("commits of the last three minutes were cut: %+v", e)
	}
	b.set("all")
	b.writes(4 * time.Minute)
	for range 8 {
		b.writes(4 * time.Minute)
	}
	if e := b.extent(); e.First != 1 {
		t.Errorf("a log of which everything is kept was cut: %+v", e)
	}
	b.set("10m")
	for range 3 {
		b.writes(4 * time.Minute)
	}
	b.WaitFor("the log to be cut by its age", func() bool {
		e := b.extent()
		return e.First > 1 && e.Bytes <= retained
	})
	b.complete()
	b.s.Stop()
}
