package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
)

// resumes resumes a watch behind a revision, and returns the error that ends it.
func resumes(ctx context.Context, t *testing.T, c *client.Client, revision uint64) error {
	t.Helper()
	for e, err := range c.Resource(configMaps, "a").Watch(ctx, client.FromRevision(revision)) {
		if err != nil {
			return err
		}
		t.Logf("the watch from revision %d gets %v", revision, e)
	}
	return errors.New("the watch has ended")
}

// A log that was restored from a backup into a new installation continues higher: a revision that a client knows of
// commits behind the backup names no other change, and a watch from there gets Expired. The flag has no effect once
// that is recorded.
func TestRestoredLog(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	backup := copyOf(t, server)
	run(t, server, dir, creating(t, "two", "three"))
	known := checkpoint(t, dir).GetRevision()

	n := testkit.StartNATS(t, natsd.Config{Dir: backup})
	end := uint64(lastOf(t, testkit.JetStream(t, n, bus.RoleGraph)))
	restored := func(sequence uint64) func(*graph.Config) {
		return func(c *graph.Config) { c.Restored = map[string]uint64{realm: sequence} }
	}
	fresh := t.TempDir()
	err := serve(t, graphConn(t, n), fresh, restored(end+2)).wait(ctx)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the log ends at sequence %d", end)) {
		t.Errorf("with a sequence behind the end: %v", err)
	}
	s := serve(t, graphConn(t, n), fresh, restored(end)).writing(ctx)
	c := application(t, n)
	revision := func(name string) uint64 {
		t.Helper()
		o, err := c.Resource(configMaps, "a").Create(ctx, configMap(name))
		if err != nil {
			t.Fatal(err)
		}
		return o.GetMetadata().GetResourceVersion()
	}
	first := revision("four")
	if first <= known+1<<30 {
		t.Errorf("the restored log continues at revision %d, and clients know %d", first, known)
	}
	if err := resumes(ctx, t, c, known); !errors.Is(err, lifecycle.ReasonExpired) {
		t.Errorf("a watch from revision %d: %v", known, err)
	}
	if events := realmEvents(ctx, t, n); len(events) != 1 || events[0].Type != "LossAccepted" || !strings.Contains(events[0].Detail, fmt.Sprintf("a backup that ends at sequence %d", end)) {
		t.Errorf("the log records %+v", events)
	}
	s.stop(ctx)
	for what, dir := range map[string]string{"again": fresh, "another replica": t.TempDir()} {
		s := serve(t, graphConn(t, n), dir, restored(end)).writing(ctx)
		if r := revision("five-" + strings.Fields(what)[0]); r > first+10 {
			t.Errorf("%s: a later start continues at revision %d, after %d", what, r, first)
		}
		s.stop(ctx)
	}
}
