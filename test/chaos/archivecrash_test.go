package chaos_test

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
)

var archiveKills = flag.Int("archivekills", 20, "how often TestCrashOfArchive kills, in all")

// hastyArchive makes a segment of nearly each commit and a snapshot of a few dozen. A segment is small enough to be
// merged.
var hastyArchive = archiver.Limits{
	SegmentBytes: 1 << 20, SegmentAge: time.Millisecond, SnapshotBytes: 32 << 10, Rate: 1 << 30, Share: 1,
	Interval: 2 * time.Millisecond, Turn: time.Hour, Pause: time.Millisecond, Prune: 10 * time.Millisecond,
}

const (
	// clockStep is how far each round moves the clock. What a round archives is cut and merged in the same round, and pruned in
	// the next one: see retentions.
	clockStep = 12 * time.Minute
	// retentions bounds the log by age, because a log that is bounded by size has segments that are too large to be merged.
	retentions = `{"logRetention":"10m","archiveRetention":"20m"}`
	// mostAhead is how far the clock may be ahead of that of the NATS server.
	mostAhead = 1000 * time.Hour
	// mergedAtOnce is a number of segments from which on they are merged.
	mergedAtOnce = 20
	// killsOfArchive is the maximum number of kills of one archive.
	killsOfArchive = 10
	// atAnyTime is the step of a process that is killed after a time, of at most longestLife.
	atAnyTime   = ""
	longestLife = time.Second
)

// archiveSteps are the steps at which a process is killed, with the maximum number of passes before that.
var archiveSteps = []struct {
	name   string
	passes int
}{
	{archiver.FailVerified, 2},
	{archiver.FailAnnounced, mergedAtOnce / 2},
	{archiver.FailCut, mergedAtOnce / 2},
	{archiver.FailPruned, 2}, // one before the first entry is deleted, and one after it
	{archiver.FailMerged, 1},
	{archiver.FailCovered, mergedAtOnce / 2},
	{atAnyTime, 1},
}

// A process with all services and the NATS server is killed with SIGKILL while it cuts the log, and prunes and merges its
// archive. Each start is clean: no acknowledged command is lost or carried out twice, and nothing that is needed is missing
// in the archive, from which an empty process starts at the end.
func TestCrashOfArchive(t *testing.T) {
	t.Parallel()
	for first := 0; first < *archiveKills; first += killsOfArchive {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			a := newArchiveWorld(t, first)
			for i := first; i < min(first+killsOfArchive, *archiveKills) && !t.Failed(); i++ {
				a.round(i)
			}
			a.complete()
		})
	}
}

// archiveWorld is a realm whose process is killed.
type archiveWorld struct {
	*world
	store   archive.Store
	p       *process
	created int
	objects map[string]string // the uids of the objects that exist, by name
	// acknowledged are the last commands with a reply, and pending is one without; nil if there is none.
	acknowledged []acknowledged
	pending      *command
}

func newArchiveWorld(t *testing.T, i int) *archiveWorld {
	t.Helper()
	dir := t.TempDir()
	c := childConfig{Name: "all in one", Dir: filepath.Join(dir, "data"), Archive: filepath.Join(dir, "archive"), Port: testkit.FreePorts(t, 1)[0], LeaseTTL: leaseTTL}
	server := openFiles(t, c.Dir, c.Port)
	w := newWorld(t, i, server.URL()) // the client learns the properties of the server with its first connection
	must.Succeed(t, server.Shutdown())
	w.child = c
	store, err := dirstore.Create(c.Archive)
	must.Succeed(t, err)
	a := &archiveWorld{world: w, store: store, objects: map[string]string{}}
	a.start()
	ctx := testkit.Context(t)
	if _, err := a.operator().Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Apply(ctx, &client.Object{
		ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &client.ObjectMeta{Name: "settings"}, Spec: []byte(retentions),
	}); err != nil {
		t.Fatal(err)
	}
	a.writeSegments(ctx) // for the first round to prune
	a.arm(order{})
	return a
}

func (a *archiveWorld) operator() *client.Client {
	return client.New(a.nc, client.WithActor(bus.RoleOperator), client.WithTimeout(testkit.Timeout/2))
}

// start starts the process, and waits until it is the writer.
func (a *archiveWorld) start() {
	a.t.Helper()
	a.p = start(a.t, a.child)
	ctx := testkit.Context(a.t)
	testkit.WaitFor(a.t, ctx, "the process to be ready", func() bool {
		if a.p.hasEnded() {
			a.t.Fatalf("the process has ended: %v, %s", a.p.cmd.ProcessState, a.p.stderr.String())
		}
		attempt, cancel := testkit.Attempt(ctx)
		defer cancel()
		_, err := a.operator().Status(attempt)
		return err == nil
	})
}

// arm steps the clock, and gives the process an order. The ids of earlier commands are not kept from then on.
func (a *archiveWorld) arm(o order) {
	a.t.Helper()
	a.acknowledged = nil
	a.child.Clock += clockStep
	o.Clock = a.child.Clock
	a.p.arm(o)
}

// round kills the process once, and starts it again.
func (a *archiveWorld) round(i int) {
	t := a.t
	t.Helper()
	ctx := testkit.Context(t)
	a.writeSegments(ctx)
	step := archiveSteps[i%len(archiveSteps)]
	o := order{Step: step.name, Pass: 1 + a.rand.IntN(step.passes)}
	a.arm(o)
	if o.Step == atAnyTime {
		time.AfterFunc(time.Duration(a.rand.Int64N(int64(longestLife))), func() { _ = a.p.cmd.Process.Kill() })
	}
	alive, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		select {
		case <-a.p.ended:
		case <-ctx.Done():
		}
	}()
	for a.write(alive) {
	}
	if o.Step == atAnyTime {
		testkit.Receive(t, ctx, "the end of the process", a.p.ended)
	} else {
		a.p.killed(ctx, o.Step)
	}
	a.checkArchive(ctx)
	a.start()
	a.repeat(testkit.Context(t))
	a.checkObjects(testkit.Context(t))
	t.Logf("%02d %s %d: %d objects were created, %d are left", i, o.Step, o.Pass, a.created, len(a.objects))
}

// writeSegments writes, and waits for a segment of each commit.
func (a *archiveWorld) writeSegments(ctx context.Context) {
	a.t.Helper()
	for range mergedAtOnce {
		before := a.archived(ctx)
		if !a.write(ctx) {
			a.t.Fatalf("no reply to %v", a.pending)
		}
		testkit.WaitFor(a.t, ctx, "another segment", func() bool { return a.archived(ctx) > before })
	}
}

// archived returns the last commit of the archive.
func (a *archiveWorld) archived(ctx context.Context) (last uint64) {
	a.t.Helper()
	for _, e := range a.entries(ctx) {
		if n, ok := archive.ParseName(e.Name); ok && n.Kind == archive.Segment {
			last = max(last, n.Last)
		}
	}
	return last
}

func (a *archiveWorld) entries(ctx context.Context) (list []archive.Entry) {
	a.t.Helper()
	for e, err := range a.store.List(ctx, "") {
		must.Succeed(a.t, err)
		list = append(list, e)
	}
	return list
}

// mostObjects is the number of objects from which on one is deleted for each that is created.
const mostObjects = 40

// write creates an object or deletes one. It reports whether there was a reply; if not, the command is pending.
func (a *archiveWorld) write(ctx context.Context) bool {
	a.t.Helper()
	var c command
	if len(a.objects) < mostObjects {
		content := make([]byte, 1<<10)
		for i := range content {
			content[i] = byte(a.rand.Uint32())
		}
		c = creation(configMaps, "a", &coppicev1.Object{
			Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("object-%06d", a.created)}, Spec: fmt.Appendf(nil, `{"content":%q}`, hex.EncodeToString(content)),
		})
		a.created++
	} else {
		names := slices.Sorted(maps.Keys(a.objects))
		c = deletion(configMaps, "a", "Background", names[a.rand.IntN(len(names))])
	}
	c.id = ahead(c.id, a.child.Clock)
	a.pending = &c
	return a.send(ctx)
}

// ahead returns the id that a client draws whose clock is ahead.
func ahead(id uuid.UUID, by time.Duration) uuid.UUID {
	ms := time.Now().Add(by).UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

// send sends the pending command, and reports whether there was a reply.
func (a *archiveWorld) send(ctx context.Context) bool {
	a.t.Helper()
	reply, err := a.pending.do(ctx, a.nc, bus.RoleOperator)
	if err != nil {
		if ctx.Err() == nil {
			a.t.Fatalf("%s of %v: %v", a.pending.verb, a.pending.request, err)
		}
		return false
	}
	for _, r := range reply.GetResults() {
		m := r.GetObject().GetMetadata()
		switch {
		case r.GetError() != nil:
			a.t.Fatalf("%s of %v: %v", a.pending.verb, a.pending.request, r.GetError())
		case a.pending.verb == bus.VerbDelete:
			delete(a.objects, m.GetName())
		default:
			a.objects[m.GetName()] = m.GetUid()
		}
	}
	a.acknowledged, a.pending = append(a.acknowledged, acknowledged{*a.pending, reply}), nil
	return true
}

// repeated is how many commands are sent again after a start. They are so young that their ids are kept.
const repeated = 8

// repeat sends the last commands again: they have the replies that they had, and change nothing.
func (a *archiveWorld) repeat(ctx context.Context) {
	a.t.Helper()
	if a.pending != nil && !a.send(ctx) {
		a.t.Fatalf("no reply to %s of %v", a.pending.verb, a.pending.request)
	}
	for _, k := range a.acknowledged[max(0, len(a.acknowledged)-repeated):] {
		if reply, err := k.do(ctx, a.nc, bus.RoleOperator); err != nil || !proto.Equal(reply, k.reply) {
			a.t.Errorf("%s of %v is repeated: %v, %v; the first reply was %v", k.verb, k.request, reply, err, k.reply)
		}
	}
	a.acknowledged = nil
}

// checkObjects compares the objects with those of the acknowledged commands.
func (a *archiveWorld) checkObjects(ctx context.Context) {
	a.t.Helper()
	left := maps.Clone(a.objects)
	for o, err := range a.operator().Resource(configMaps, "a").List(ctx) {
		must.Succeed(a.t, err)
		m := o.GetMetadata()
		if uid, ok := left[m.GetName()]; uid != m.GetUid() || !ok || m.GetDeletionTimestamp() != nil {
			a.t.Errorf("there is %s with uid %s, and the acknowledged one has %q", m.GetName(), m.GetUid(), uid)
		}
		delete(left, m.GetName())
	}
	if len(left) > 0 {
		a.t.Errorf("acknowledged objects are missing: %v", left)
	}
}

// checkArchive verifies all entries, and that segments have all commits behind the older of the two newest verified
// snapshots.
func (a *archiveWorld) checkArchive(ctx context.Context) {
	t := a.t
	t.Helper()
	reports, err := archive.Verify(ctx, a.store, a.entries(ctx), snapshot.CheckEntry, func(int64) {})
	if err != nil || len(reports) != 1 {
		t.Fatal(reports, err)
	}
	r := reports[0]
	for _, p := range r.Problems {
		t.Errorf("archive: %s: %v", p.Name, p.Err)
	}
	_, newest, ok, err := archive.NewestVerified(ctx, a.store, r.Realm)
	if err != nil || !ok {
		t.Fatal("no verified snapshot", err)
	}
	base := newest
	if _, older, ok, err := archive.VerifiedBefore(ctx, a.store, r.Realm, newest.Sequence, func(string, error) {}); err != nil {
		t.Fatal(err)
	} else if ok {
		base = older
	}
	segments, err := archive.Segments(ctx, a.store, r.Realm)
	must.Succeed(t, err)
	end := base.Sequence
	if chain := archive.Chain(segments, base.Sequence+1); len(chain) > 0 {
		end = chain[len(chain)-1].Last
	}
	if end < max(newest.Sequence, a.archived(ctx)) {
		t.Errorf("the segments behind the snapshot of commit %d end with commit %d, and there is a snapshot of commit %d", base.Sequence, end, newest.Sequence)
	}
}

// complete lets the process work without a kill, and then has an empty one start from the archive.
func (a *archiveWorld) complete() {
	t := a.t
	t.Helper()
	if t.Failed() {
		return
	}
	ctx := testkit.Context(t)
	a.writeSegments(ctx)
	a.verify(t)
	a.p.stop(ctx)
	a.checkArchive(ctx)
	must.Succeed(t, os.RemoveAll(filepath.Join(a.child.Dir, "graph")))
	a.start()
	a.checkObjects(ctx)
	a.verify(t)
	for _, err := range a.operator().Log().Read(ctx, client.FromSequence(1)) {
		if !errors.Is(err, client.ErrExpired) {
			t.Errorf("the first commit is read: %v; want that it was cut and pruned", err)
		}
		break
	}
	a.p.stop(ctx)
	if said := a.p.stderr.String(); strings.Contains(said, "damaged") {
		t.Errorf("an empty process says: %s", said)
	}
}
