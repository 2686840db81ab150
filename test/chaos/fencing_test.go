//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

// A writer is suspended for longer than its lease, another process takes over, and the
// first wakes up with waiting requests. It must not answer any of them from its old state,
// neither with an object nor with NotFound or Conflict. Of concurrent appends exactly one
// succeeds.
func TestFencing(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	writers := map[string]*process{}
	for _, name := range []string{"first", "second"} {
		writers[name] = start(t, childConfig{
			Name: name, Dir: t.TempDir(), URL: server.URL(), Passwords: passwords(server), GraphOnly: true, LeaseTTL: time.Second,
		})
	}
	h := newHistory(t, testkit.Conn(t, server, bus.RoleApplication), usage{"a", askers, 0, 20 * time.Second})
	leases := leasesOf(t, testkit.JetStream(t, server, bus.RoleGraph))
	for i := range stops {
		stopWriter(t, h, leases, writers, i)
	}
	h.end()

	log := newAuditor(t)
	log.mustRead(testkit.Context(t), testkit.Conn(t, server, bus.RoleGraph))
	if log.epoch < stops+1 {
		t.Errorf("the log has %d epochs; the writer was stopped %d times", log.epoch, stops)
	}
	operations, _ := h.operations(log)
	t.Logf("%d operations, %d of them with an answer that came late or never; %d commits, %d epochs", len(operations), h.late.Load(), log.sequence, log.epoch)
	for _, kind := range []client.Reason{"", client.ErrNotFound, client.ErrAlreadyExists, client.ErrConflict} {
		if !slices.ContainsFunc(operations, func(o porcupine.Operation) bool { return o.Output.(response).refusal == kind }) {
			t.Errorf("no operation has the outcome %q", kind)
		}
	}
	for _, v := range h.check(log) {
		t.Error(v)
	}
	for _, p := range writers {
		p.stop(testkit.Context(t))
	}
}

// stops is the number of times that the writer is suspended.
const stops = 6

// stopWriter suspends the writer until another process is the writer, and resumes it. Every
// second time it resumes the writer as soon as the other process has the lease, when that
// may not have appended anything yet.
func stopWriter(t *testing.T, h *history, leases jetstream.KeyValue, writers map[string]*process, i int) {
	t.Helper()
	ctx := testkit.Context(t)
	is := ""
	testkit.WaitFor(t, ctx, "a writer", func() bool {
		is = holder(ctx, leases)
		return writers[is] != nil
	})
	h.progress(ctx, 50)
	signal := func(s syscall.Signal) {
		t.Helper()
		must.Succeed(t, writers[is].cmd.Process.Signal(s))
	}
	late := h.late.Load()
	signal(syscall.SIGSTOP)
	testkit.WaitFor(t, ctx, "another writer", func() bool {
		now := holder(ctx, leases)
		return now != is && writers[now] != nil
	})
	testkit.WaitFor(t, ctx, "requests that wait at the one that is stopped", func() bool { return h.late.Load() > late })
	if i%2 == 0 {
		h.progress(ctx, 50)
	}
	signal(syscall.SIGCONT)
	h.progress(ctx, 50)
}

// holder returns the name of the process that holds the lease, empty if none does.
func holder(ctx context.Context, leases jetstream.KeyValue) string {
	entry, err := leases.Get(ctx, realm)
	if err != nil {
		return ""
	}
	var h lease.Holder
	if json.Unmarshal(entry.Value(), &h) != nil {
		return ""
	}
	return h.Name
}

// leasesOf waits for the bucket of the leases.
func leasesOf(t *testing.T, js jetstream.JetStream) (leases jetstream.KeyValue) {
	t.Helper()
	ctx := testkit.Context(t)
	testkit.WaitFor(t, ctx, "the bucket of the leases", func() (ok bool) {
		ctx, cancel := testkit.Attempt(ctx)
		defer cancel()
		var err error
		leases, err = js.KeyValue(ctx, bus.WriterBucket)
		return err == nil
	})
	return leases
}
