//go:build unix

package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

var (
	clusterFor = flag.Duration("for", 0, "TestCluster begins further schedules, with the next seeds, until this time is over")
	only       = flag.String("faults", "", "regular expression of the faults that TestCluster injects; all if empty")
	most       = flag.Int("most", 1, "the maximum number of faults in a schedule of TestCluster; zero for all")
	recording  = flag.Bool("record", false, "append each schedule of TestCluster to "+runsFile)
)

// Three NATS servers and all services, each a process of its own, while clients send
// commands. A schedule has every fault once, in an order and with parameters that its seed
// draws. Without .ci/nightly it has no fault of a disk. After each fault the cluster must heal, and every acknowledged command must be in the
// log. At the end no garbage is left, and the state of every replica is the fold of the log.
//
//	go test ./test/chaos -run TestCluster -v -seed=7
//	make chaos FOR=8h
func TestCluster(t *testing.T) {
	end := time.Now().Add(*clusterFor)
	for s := *seed; ; s++ {
		if !t.Run(fmt.Sprint("seed ", s), func(t *testing.T) { runSchedule(t, s) }) || !time.Now().Before(end) {
			return
		}
	}
}

// last has the faults that are injected after all others.
var last = map[string]int{logCut: 1}

// schedule returns the faults of a schedule, in the order in which they are injected.
func schedule(t *testing.T, r *rand.Rand) (list []fault) {
	t.Helper()
	match, err := regexp.Compile(*only)
	must.Succeed(t, err)
	for _, f := range faults {
		if match.MatchString(f.name) {
			list = append(list, f)
		}
	}
	for _, f := range diskFaults {
		switch {
		case !match.MatchString(f.name):
		case nightly.On():
			list = append(list, f)
		default: // the subtest reports that the fault is not injected
			t.Run(f.name, func(t *testing.T) { nightly.Test(t, nightly.SmallDisk) })
		}
	}
	if len(list) == 0 {
		t.Fatalf("no fault matches %q", *only)
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if *most > 0 {
		list = list[:min(len(list), *most)]
	}
	slices.SortStableFunc(list, func(a, b fault) int { return cmp.Compare(last[a.name], last[b.name]) })
	return list
}

func runSchedule(t *testing.T, seed uint64) {
	t.Helper()
	begun := time.Now()
	r := run{date: begun.UTC().Format(time.DateTime), seed: seed, result: "the start", faults: map[string]int{}}
	// The processes write all that they have said when the test fails. What has failed is named
	// once more behind it.
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d failed during %q; its error is above what the processes said", seed, r.result)
		}
	})
	c := newCluster(t, seed)
	defer func() {
		r.seconds, r.commands, r.commits = int(time.Since(begun).Seconds()), c.load.progress().commands, c.log.sequence
		if !*recording {
			return
		}
		if err := r.record(runsFile); err != nil {
			t.Error(err)
		}
	}()
	c.healed()
	for i, f := range schedule(t, c.rand) {
		r.result = f.name
		begun := time.Now()
		f.inject(c)
		injected := time.Since(begun)
		c.healed()
		if t.Failed() {
			t.FailNow()
		}
		r.faults[f.name]++
		t.Logf("%02d %s: %.1f s, and %.1f s until it was healed; %d commands acknowledged so far",
			i, f.name, injected.Seconds(), (time.Since(begun) - injected).Seconds(), c.load.progress().commands)
	}
	r.result = "the end"
	if c.settle(); !t.Failed() {
		r.result = passed
	}
}

// settle ends the clients, waits until all cascades are complete, ends all services, and
// compares their states.
func (c *cluster) settle() {
	t := c.t
	t.Helper()
	must.Succeed(t, c.load.end())
	ctx := testkit.Context(t)
	c.recorder.end(ctx, c.log, func() error { c.tend(); return c.log.read(ctx, c.nc) })
	operator := c.operator()
	testkit.WaitFor(t, ctx, "the end of all cascades", func() bool {
		c.tend()
		short, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		status, err := operator.Status(short)
		return err == nil && status.GetIdle()
	})
	// An external finalizer is called after the work of the collector is done.
	testkit.WaitFor(t, ctx, "the end of all deletions", func() bool {
		c.tend()
		return c.log.read(ctx, c.nc) == nil && c.log.unsettled() == ""
	})
	c.checkHistory(ctx)
	for _, role := range []string{bus.RoleScanner, bus.RoleProcessor, bus.RoleFinalizers, bus.RoleFinalizer, bus.RoleGraph} {
		for _, n := range c.of(role) {
			n.p.stop(testkit.Context(t))
			n.mourn()
		}
	}
	// A NATS server that lags behind the others does not have the newest commit yet.
	testkit.WaitFor(t, ctx, "the log to be readable", func() bool { return c.log.read(ctx, c.nc) == nil })
	c.log.check(t, c.ledger.take())
	if left := c.log.unsettled(); left != "" {
		t.Errorf("garbage is left: %s", left)
	}
	for _, v := range c.recorder.check(c.log) {
		t.Error(v)
	}
	c.compare(ctx)
	c.checkArchive(ctx)
	t.Logf("%d commands were acknowledged; the log has %d commits, %d events, %d epochs", c.ledger.all, c.log.sequence, c.log.revision, c.log.epoch)
}

// compare folds the log into the state of each graph service, and into an empty one. All must
// have the same content.
func (c *cluster) compare(ctx context.Context) {
	t := c.t
	t.Helper()
	js, err := jetstream.New(c.dial(bus.RoleGraph))
	must.Succeed(t, err)
	log, err := eventlog.OpenExisting(ctx, js, realm, eventlog.NewKeys(testkit.Secrets(), realm))
	must.Succeed(t, err)
	empty := t.TempDir()
	if first, err := c.firstOfLog(ctx); err != nil {
		t.Fatal(err)
	} else if first > 1 {
		c.rebuild(ctx, log, empty)
		empty = filepath.Join(empty, realm)
	}
	want, err := foldInto(ctx, log, empty)
	must.Succeed(t, err)
	for _, n := range c.of(bus.RoleGraph) {
		is, err := foldInto(ctx, log, n.state())
		if n.damaged && errors.Is(err, state.ErrDamaged) {
			// Damage that nothing has read before is refused now, and the next start rebuilds
			// the state.
			t.Logf("%s: the state is rebuilt: %v", n, err)
			c.rebuild(ctx, log, n.config.Dir)
			is, err = foldInto(ctx, log, n.state())
		}
		if err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		if is != want {
			t.Errorf("the state of %s is not the fold of the log: its content is %s, that of the log %s", n, is, want)
		}
	}
}

// rebuild replaces the state in a directory of a graph service by that of the log and, if it was
// cut, of the archive.
func (c *cluster) rebuild(ctx context.Context, log *eventlog.Log, dir string) {
	c.t.Helper()
	first, err := c.firstOfLog(ctx)
	if err == nil && first == 1 {
		_, err = replay.Replace(ctx, log, dir, state.Config{})
	} else if err == nil {
		var store archive.Store
		if store, err = dirstore.Open(filepath.Join(c.dir, "archive")); err == nil {
			_, err = archivestate.Rebuild(ctx, log, store, dir, slog.New(slog.DiscardHandler))
		}
	}
	must.Succeed(c.t, err)
}

// checkArchive reports damaged entries and gaps of the archive. Each failure of the store is
// over: what it prevented must have been archived.
func (c *cluster) checkArchive(ctx context.Context) {
	t := c.t
	t.Helper()
	store, err := dirstore.Open(filepath.Join(c.dir, "archive"))
	must.Succeed(t, err)
	var entries []archive.Entry
	for e, err := range store.List(ctx, "") {
		must.Succeed(t, err)
		entries = append(entries, e)
	}
	reports, err := archive.Verify(ctx, store, entries, snapshot.CheckEntry, func(int64) {})
	must.Succeed(t, err)
	if len(reports) != 1 {
		t.Fatalf("the archive has %d realms", len(reports))
	}
	for _, p := range reports[0].Problems {
		t.Errorf("the archive: %v", p)
	}
	if _, _, ok, err := archive.NewestVerified(ctx, store, reports[0].Realm); err != nil || !ok {
		t.Errorf("the archive has no verified snapshot: %v", err)
	}
}

// foldInto folds the log into a state, and returns the revision and the hash of its content.
func foldInto(ctx context.Context, log *eventlog.Log, dir string) (is string, err error) {
	last, _, err := log.Last(ctx)
	if err != nil {
		return "", err
	}
	s, err := state.Open(filepath.Clean(dir), state.Config{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := replay.NewFolder(s, log.Created(), log.Keys()).FoldTo(ctx, log, last); err != nil {
		return "", err
	}
	snap := s.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	hash, err := snap.ContentHash(nil)
	return fmt.Sprintf("%x at revision %d", hash, snap.Checkpoint().GetRevision()), err
}

// unsettled returns an object with pending work, "" if there is none.
func (a *auditor) unsettled() string {
	for _, o := range a.objects {
		if o.terminating || a.isPending(o) {
			return fmt.Sprintf("%v, finalizers %v", o, o.finalizers)
		}
	}
	return ""
}
