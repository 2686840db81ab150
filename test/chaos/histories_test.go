//go:build unix

package chaos_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// histories is the namespace of the objects whose histories are recorded.
const histories = "histories"

// recorder records what clients of the objects in the namespace histories and a watch of them
// receive.
type recorder struct {
	*history
	watch *watchHistory
}

// onCluster is how the clients of a recorder use a cluster. They leave the machine to the other
// clients, and their history can be checked within seconds. sessionOnCluster is half of the
// longest time for which its watch is connected.
var onCluster = usage{histories, 3, 100 * time.Millisecond, 20 * time.Second}

const sessionOnCluster = 3 * time.Second

// record starts a recorder on a connection of the role application. The watch begins when there
// are objects.
func record(t *testing.T, nc *nats.Conn, use usage, session time.Duration) *recorder {
	t.Helper()
	r := &recorder{history: newHistory(t, nc, use)}
	r.progress(testkit.Context(t), names)
	r.watch = startWatch(t, nc, session)
	return r
}

// end ends the clients, waits until the watch has all changes, and ends it.
func (r *recorder) end(ctx context.Context, log *auditor, read func() error) {
	r.t.Helper()
	r.history.end()
	testkit.WaitFor(r.t, ctx, "the log to be read", func() bool { return read() == nil })
	last := uint64(0)
	if n := len(log.changes); n > 0 {
		last = log.changes[n-1].revision
	}
	testkit.WaitFor(r.t, ctx, "the last change in the watch", func() bool { return r.watch.most.Load() >= last })
	r.watch.end()
}

// check returns the violations of the properties.
func (r *recorder) check(log *auditor) []violation {
	batches := r.watch.recorded()
	events := 0
	for _, b := range batches {
		events += len(b.events)
	}
	r.t.Logf("histories: %d operations with a reply, %d of them late or without one; %d watch events; the watch has resumed %d times and listed %d times",
		r.done.Load(), r.late.Load(), events, r.watch.resumed.Load(), r.watch.listed.Load())
	return append(r.history.check(log), checkWatch(batches, log.changes, r.values(log), log.revision)...)
}

// The history of concurrent clients is linearizable, and that of a watch that disconnects and
// resumes has each change once and in order, while graph services are killed and suspended. A graph
// service that violates one of the properties is noticed, whichever property it is.
// TestCluster checks the same under all faults of a cluster.
func TestHistories(t *testing.T) {
	t.Parallel()
	sabotages := map[string][]property{
		"":                 nil,
		sabotageStaleRead:  {linearizable},
		sabotageNotFound:   {linearizable},
		sabotageRevision:   {linearizable},
		sabotageDrop:       {complete},
		sabotageDuplicate:  {unique},
		sabotageReorder:    {ordered},
		sabotageBookmark:   {bookmarks},
		sabotageResume:     {resumable},
		sabotageList:       {complete},
		sabotageOldContent: {truthful},
	}
	for _, p := range properties {
		if !slices.ContainsFunc(slices.Collect(maps.Values(sabotages)), func(list []property) bool { return slices.Contains(list, p) }) {
			t.Errorf("no sabotage violates the property that %s", p)
		}
	}
	for name, wants := range sabotages {
		t.Run(cmp.Or(name, "no sabotage"), func(t *testing.T) {
			t.Parallel()
			found := recordHistories(t, name)
			for _, p := range wants {
				if !slices.ContainsFunc(found, func(v violation) bool { return v.of == p }) {
					t.Errorf("the sabotage is not noticed: no violation of the property that %s; found %v", p, found)
				}
			}
			if len(wants) > 0 {
				return
			}
			for _, v := range found {
				t.Error(v)
			}
		})
	}
}

// The least that a history of TestHistories has.
const (
	leastReplies  = 200
	leastResumed  = 5
	leastListed   = 4
	leastLater    = 100
	historyFaults = 2
)

// recordHistories records the histories of one or two graph services with a sabotage, "" for
// none, and returns the violations.
func recordHistories(t *testing.T, sabotage string) []violation {
	t.Helper()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	configs := []childConfig{
		{Name: "first", Dir: t.TempDir(), URL: server.URL(), Passwords: passwords(server), GraphOnly: true, LeaseTTL: leaseTTL, Sabotage: sabotage},
	}
	if sabotage == "" {
		second := configs[0]
		second.Name, second.Dir = "second", t.TempDir()
		configs = append(configs, second)
	}
	children := map[string]*process{}
	for _, c := range configs {
		children[c.Name] = start(t, c)
	}
	r := record(t, testkit.Conn(t, server, bus.RoleApplication), usage{histories, 3, 2 * time.Millisecond, 5 * time.Second}, 150*time.Millisecond)
	if sabotage == "" {
		leases := leasesOf(t, testkit.JetStream(t, server, bus.RoleGraph))
		for i := range historyFaults {
			r.progress(ctx, leastReplies/historyFaults)
			is := ""
			testkit.WaitFor(t, ctx, "a writer", func() bool {
				is = holder(ctx, leases)
				return children[is] != nil
			})
			p := children[is]
			signal, resume := syscall.SIGKILL, func() {
				testkit.Receive(t, ctx, "the end of "+is, p.ended)
				children[is] = start(t, configs[slices.IndexFunc(configs, func(c childConfig) bool { return c.Name == is })])
			}
			if i%2 == 1 {
				signal, resume = syscall.SIGSTOP, func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
			}
			must.Succeed(t, p.cmd.Process.Signal(signal))
			testkit.WaitFor(t, ctx, "another writer", func() bool { now := holder(ctx, leases); return now != is && children[now] != nil })
			resume()
		}
	}
	resumed := r.watch.resumed.Load() + leastResumed
	r.progress(ctx, leastReplies)
	testkit.WaitFor(t, ctx, "the watch to resume and to list", func() bool { return r.watch.resumed.Load() >= resumed && r.watch.listed.Load() >= leastListed })
	testkit.WaitFor(t, ctx, "sessions of the watch with several messages", func() bool { return r.watch.later.Load() >= leastLater })
	log := newAuditor(t)
	reader := testkit.Conn(t, server, bus.RoleGraph)
	r.end(ctx, log, func() error { return log.read(ctx, reader) })
	return r.check(log)
}
