package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// resumes resumes a watch behind a revision, and returns the error that ends it.
func resumes(ctx context.Context, tb testing.TB, c *client.Client, revision uint64) error {
	tb.Helper()
	for e, err := range c.Resource(configMaps, "a").Watch(ctx, client.FromRevision(revision)) {
		if err != nil {
			return err
		}
		tb.Logf("the watch from revision %d gets %v", revision, e)
	}
	return errors.New("the watch has ended")
}

// A log that was restored from a backup into a new installation continues higher: a revision that a client knows of
// commits behind the backup names no other change, and a watch from there gets Expired. The flag has no effect once
// that is recorded.
func TestRestoredLog(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	backup := copyOf(t, server)
	run(t, server, dir, creating(t, "two", "three"))
	known := checkpoint(t, dir).GetRevision()

	n := installationIn(t, backup)
	end := uint64(lastOf(t, n.JS()))
	restored := func(sequence uint64) func(*graph.Config) {
		return func(c *graph.Config) { c.Restored = map[string]uint64{realm: sequence} }
	}
	fresh := t.TempDir()
	err := n.serve(fresh, restored(end+2)).Wait()
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the log ends at sequence %d", end)) {
		t.Errorf("with a sequence behind the end: %v", err)
	}
	registry := prometheus.NewRegistry()
	s := n.serve(fresh, func(c *graph.Config) { restored(end)(c); c.Registry = registry }).writing()
	c := n.application()
	revision := func(name string) uint64 {
		t.Helper()
		o := put(n.Ctx, t, c, configMap(name))
		return o.GetMetadata().GetResourceVersion()
	}
	first := revision("four")
	if first <= known+1<<30 {
		t.Errorf("the restored log continues at revision %d, and clients know %d", first, known)
	}
	if err := resumes(n.Ctx, t, c, known); !errors.Is(err, api.ErrExpired) {
		t.Errorf("a watch from revision %d: %v", known, err)
	}
	reader := n.as(bus.RoleOperator)
	if _, err := reader.At(n.Ctx, client.Moment{Revision: known}); !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), "was lost") {
		t.Errorf("the past at revision %d: %v", known, err)
	}
	for _, revision := range []uint64{first, first - 1} { // the second is that of a list before the first change
		if _, err := reader.At(n.Ctx, client.Moment{Revision: revision}); err != nil {
			t.Errorf("the past at revision %d: %v", revision, err)
		}
	}
	if events := realmEvents(n.Ctx, t, n); len(events) != 1 || events[0].Type != "LossAccepted" || !strings.Contains(events[0].Detail, fmt.Sprintf("a backup that ends at sequence %d", end)) {
		t.Errorf("the log records %+v", events)
	}
	if counted := metric(t, registry, "coppice_graph_events_total"); counted > 10 {
		t.Errorf("the service counts %v events", counted)
	}
	s.Stop()
	for what, dir := range map[string]string{"again": fresh, "another replica": t.TempDir()} {
		s := n.serve(dir, restored(end)).writing()
		if r := revision("five-" + strings.Fields(what)[0]); r > first+10 {
			t.Errorf("%s: a later start continues at revision %d, after %d", what, r, first)
		}
		s.Stop()
	}
}

// restoredAs starts a graph service on a copy of a log, and returns the revision of an object that it creates.
func restoredAs(tb testing.TB, server, dir string, behind func(*attacker), configure func(c *graph.Config, end uint64)) uint64 {
	tb.Helper()
	n := installationIn(tb, copyOf(tb, server))
	end := uint64(lastOf(tb, n.JS()))
	behind(newAttacker(tb, n))
	s := n.serve(dir, func(c *graph.Config) {
		c.Restored = map[string]uint64{realm: end}
		configure(c, end)
	}).writing()
	defer s.Stop()
	o := put(n.Ctx, tb, n.application(), configMap("new"))
	return o.GetMetadata().GetResourceVersion()
}

// A backup that is restored twice uses no revision twice, also if messages that are no commits follow it.
func TestBackupRestoredTwice(t *testing.T) {
	t.Parallel()
	server := t.TempDir()
	run(t, server, t.TempDir(), creating(t, "one"))
	none := func(*graph.Config, uint64) {}
	first := restoredAs(t, server, t.TempDir(), func(*attacker) {}, none)
	second := restoredAs(t, server, t.TempDir(), func(a *attacker) { a.publish(testkit.Context(t), []byte("{}")) }, none)
	if second <= first {
		t.Errorf("the backup that is restored again continues at revision %d, and did at %d", second, first)
	}
}

// An archive that is restored twice uses no revision twice.
func TestArchiveRestoredTwice(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.segments()
	if first, second := a.restore(0), a.restore(0); second.Continues <= first.Continues {
		t.Errorf("the realm that is restored again continues at revision %d, and did at %d", second.Continues, first.Continues)
	}
}

// A graph service that has seen some of the commits behind a backup leaves out as many revisions as one that has seen none.
func TestRestoredWithAcceptedLoss(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	older := copyOf(t, server)
	run(t, server, dir, creating(t, "two"))
	seen := checkpoint(t, dir)
	revision := restoredAs(t, older, dir, func(*attacker) {}, func(c *graph.Config, _ uint64) {
		c.AcceptLoss = map[string]uint64{realm: seen.GetSequence()}
	})
	if revision <= seen.GetRevision()+writer.LostAhead {
		t.Errorf("the realm continues at revision %d; the service has seen %d", revision, seen.GetRevision())
	}
}

// What precedes the restore of a realm is neither shown nor folded, also if the archive has the older log: the refusals say so.
func TestPastOfRestoredRealm(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	a.segments()
	begun := a.restore(0)
	a.dir = t.TempDir()
	s, reader := a.past(a.store, past.Limits{})
	operator := a.as(bus.RoleOperator)
	if _, err := operator.Operations().Resume(a.Ctx); err != nil {
		t.Fatal(err)
	}
	a.revisions("three")
	id := fmt.Sprintf("realm id %x", begun.Origin.RealmID)
	_, err := reader.At(a.Ctx, client.Moment{Revision: begun.Revision})
	if !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "coppice realm restore --to") {
		t.Errorf("a revision before the restore: %v", err)
	}
	if past, err := reader.At(a.Ctx, client.Moment{Revision: begun.Continues}); err != nil || !strings.Contains(identitiesOf(a.Ctx, t, past), "two:") {
		t.Errorf("the first revision of the restored realm: %v", err)
	}
	if _, err := operator.Operations().Verify(a.Ctx, client.FromFirstCommit(true)); !errors.Is(err, client.ErrBadRequest) || !strings.Contains(err.Error(), id) {
		t.Errorf("verified from the first commit: %v", err)
	}
	s.Stop()
}
