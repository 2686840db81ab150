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
	h := newHistory(t, server)
	for i := range stops {
		stopWriter(t, h, writers, i)
	}
	h.end()

	log := newAuditor(t)
	log.mustRead(testkit.Context(t), testkit.Conn(t, server, bus.RoleGraph))
	if log.epoch < stops+1 {
		t.Errorf("the log has %d epochs; the writer was stopped %d times", log.epoch, stops)
	}
	operations := h.operations(log)
	t.Logf("%d operations, %d of them with an answer that came late or never; %d commits, %d epochs", len(operations), h.late.Load(), log.sequence, log.epoch)
	for _, kind := range []client.Reason{"", client.ErrNotFound, client.ErrAlreadyExists, client.ErrConflict} {
		if !slices.ContainsFunc(operations, func(o porcupine.Operation) bool { return o.Output.(told).refusal == kind }) {
			t.Errorf("no operation has the outcome %q", kind)
		}
	}
	switch result, info := porcupine.CheckOperationsVerbose(registers, operations, testkit.Timeout); result {
	case porcupine.Unknown:
		t.Error("it could not be checked in time whether the history is linearizable")
	case porcupine.Illegal:
		t.Error("the history is not linearizable: a stale answer was given")
		explain(t, info)
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
func stopWriter(t *testing.T, h *history, writers map[string]*process, i int) {
	t.Helper()
	ctx := testkit.Context(t)
	is := ""
	testkit.WaitFor(t, ctx, "a writer", func() bool {
		is = holder(ctx, h.leases)
		return writers[is] != nil
	})
	h.progress(ctx, 50)
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := writers[is].cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	late := h.late.Load()
	signal(syscall.SIGSTOP)
	testkit.WaitFor(t, ctx, "another writer", func() bool {
		now := holder(ctx, h.leases)
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

// explain logs, for each object, the longest prefix of its operations that has a valid
// order.
func explain(t *testing.T, info porcupine.LinearizationInfo) {
	t.Helper()
	for _, partial := range info.PartialLinearizations() {
		longest := 0
		for _, l := range partial {
			longest = max(longest, len(l))
		}
		t.Logf("%d operations of an object have an order", longest)
	}
}
