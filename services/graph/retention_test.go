package graph_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/processor"
)

// bounded is a realm whose log has a retention of 1 MiB. Its clock moves as the test says, since
// commits of the last 3 minutes are never cut.
type bounded struct {
	*archived
	clock    *clock
	registry *prometheus.Registry
	out      *testkit.Output
	log      *eventlog.Log
	s        *service
	nc       *conns   // of the graph service; nil for some of its own
	names    []string // of the objects that were created
	blank    bool     // the objects compress well
}

const retained = 1 << 20

func newBounded(tb testing.TB) *bounded {
	tb.Helper()
	a := newArchived(tb)
	return &bounded{archived: a, clock: &clock{}, registry: prometheus.NewRegistry(), out: &testkit.Output{}}
}

// start starts the graph service, and sets the retention.
func (b *bounded) start(store archive.Store, change func(*graph.Config)) {
	b.Helper()
	b.s = b.serve(b.dir, store, change).writing()
	b.log = b.archived.log()
	b.set("1MiB")
}

// serve starts a graph service in a directory.
func (b *bounded) serve(dir string, store archive.Store, change func(*graph.Config)) *service {
	b.Helper()
	if b.nc == nil {
		nc := b.connect()
		b.nc = &nc
	}
	nc := *b.nc
	b.nc = nil
	return serve(b, nc, dir, func(c *graph.Config) {
		b.clock.ahead(c)
		c.Archive, c.ArchiveLimits, c.CheckLog = store, archiver.Limits{Interval: 2 * time.Millisecond, Pause: time.Millisecond}, 20*time.Millisecond
		c.Log = slog.New(slog.NewTextHandler(b.out, nil))
		if dir == b.dir {
			c.Registry = b.registry
		}
		if change != nil {
			change(c)
		}
	})
}

// settled repeats a command whose outcome is unknown: its client had the time from before a step of
// the clock, and the reply that corrects it was late.
func settled(command func() error) error {
	for {
		if err := command(); !errors.Is(err, client.ErrOutcomeUnknown) {
			return err
		}
	}
}

// set sets the retention of the log.
func (b *bounded) set(retention string) { b.setBy(b.as(bus.RoleOperator), retention) }

func (b *bounded) setBy(operator *client.Client, retention string) {
	b.Helper()
	c := operator.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "")
	err := settled(func() error {
		_, err := c.Apply(b.Ctx, &client.Object{
			ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &client.ObjectMeta{Name: "settings"}, Spec: fmt.Appendf(nil, `{"logRetention":%q}`, retention),
		})
		return err
	})
	must.Succeed(b, err)
}

// writes creates objects with 64 KiB in total, which do not compress, and lets time pass.
func (b *bounded) writes(pass time.Duration) {
	b.Helper()
	if name, err := b.tries(b.Ctx, pass); err != nil {
		b.Fatalf("%s: %v", name, err)
	}
}

// tries is writes, but returns an error, with the name of the object that may have been created or not.
func (b *bounded) tries(ctx context.Context, pass time.Duration) (name string, err error) {
	c := b.application().Resource(configMaps, "a")
	for range 4 {
		content := make([]byte, 8<<10)
		if !b.blank {
			_, _ = rand.Read(content)
		}
		o := configMap(fmt.Sprintf("object-%04d", len(b.names)))
		o.Spec = fmt.Appendf(nil, `{"content":%q}`, hex.EncodeToString(content))
		again := false
		err := settled(func() error {
			_, err := c.Create(ctx, o)
			if again && errors.Is(err, client.ErrAlreadyExists) {
				return nil
			}
			again = true
			return err
		})
		if err != nil {
			return o.GetMetadata().GetName(), err
		}
		b.names = append(b.names, o.GetMetadata().GetName())
	}
	b.clock.Pass(pass)
	return "", nil
}

// extent returns what the stream has.
func (b *bounded) extent() eventlog.Extent {
	b.Helper()
	e, err := b.log.Extent(b.Ctx)
	must.Succeed(b, err)
	return e
}

// announced returns the last announcement of a cut.
func (b *bounded) announced() eventlog.Announcement {
	b.Helper()
	a, err := b.log.Announced(b.Ctx)
	must.Succeed(b, err)
	return a
}

// cut writes until the stream begins behind a position, and checks that it stays within its retention.
func (b *bounded) cut(behind uint64) {
	b.Helper()
	for {
		b.writes(4 * time.Minute)
		// A writer that is faster than the archiver is not what is tested. Without a cut there is no room soon.
		b.WaitFor(fmt.Sprintf("room for more commits, or the stream to begin after sequence %d", behind), func() bool {
			return b.extent().Bytes < retained/8*7
		})
		if b.extent().First > behind {
			return
		}
	}
}

// history reads all commits, and returns how many config maps they created. It checks that none is missing
// or repeated.
func (b *bounded) history(commits iter.Seq2[client.LogCommit, error]) (objects int) {
	b.Helper()
	read := 0
	for c, err := range commits {
		if err != nil {
			b.Fatalf("after commit %d: %v", read, err)
		}
		if read++; c.GetSequence() != uint64(read) {
			b.Fatalf("commit %d follows commit %d", c.GetSequence(), read-1)
		}
		for _, e := range c.GetEvents() {
			if e.GetCreated().GetNode().GetKind() == "ConfigMap" {
				objects++
			}
		}
	}
	return objects
}

// A realm that writes many times its retention stays within it, and its history stays complete:
// for readers from the beginning, for a follower that was at a commit which was cut, and for an empty
// replica. A watch from before is expired, and a command from before is not executed a second time. A consumer that
// another program has put on the stream does not hold the cut back.
func TestRetention(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	b.start(b.store, nil)
	operator := b.as(bus.RoleOperator)
	command := uuid.Must(uuid.NewV7())
	for range 2 {
		if err := creation(b.Ctx, b.application().Conn(), command, "object-0000"); err != nil {
			t.Fatalf("a command and its repetition before a cut: %v", err)
		}
	}
	b.names = []string{"object-0000"}
	if _, err := b.JS().CreateConsumer(b.Ctx, bus.LogStream(realm), jetstream.ConsumerConfig{Durable: "other", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(operator.Log().Read(b.Ctx, client.FromSequence(1), client.Follow(true)))
	defer stop()
	first, err, ok := next()
	if err != nil || !ok || first.GetSequence() != 1 {
		t.Fatalf("the first commit is %v, %v", first, err)
	}
	for uint64(len(b.names))*(16<<10) < 4*retained {
		b.cut(b.extent().First)
	}
	if err := creation(b.Ctx, b.application().Conn(), command, "object-0000"); !errors.Is(err, api.ErrOutcomeUnknown) {
		t.Errorf("a command whose commit was cut is repeated: %v", err)
	}
	e := b.extent()
	if a := b.announced(); e.Bytes > retained || a.Position+1 < e.First || e.Gaps > 0 {
		t.Errorf("the stream has %+v, and was cut as %+v", e, a)
	}
	if objects := b.history(operator.Log().Read(b.Ctx, client.FromRevision(1))); objects != len(b.names) {
		t.Errorf("the history has %d objects, want %d", objects, len(b.names))
	}
	for at := uint64(2); at <= e.Last; at++ {
		if c, err, ok := next(); err != nil || !ok || c.GetSequence() != at {
			t.Fatalf("a follower gets %v, %v after commit %d", c.GetSequence(), err, at-1)
		}
	}
	for _, err := range b.application().Resource(configMaps, "a").Watch(b.Ctx, client.FromRevision(1)) {
		if !errors.Is(err, client.ErrExpired) {
			t.Errorf("a watch from revision 1: %v", err)
		}
		break
	}
	if v := b.verify(); v.GetDifference() != "" || v.GetSnapshot() == 0 {
		t.Errorf("the state is verified as %v", v)
	}
	if v, err := operator.Operations().Verify(b.Ctx, client.FromFirstCommit(true)); err != nil || v.GetDifference() != "" || v.GetSnapshot() != 0 || v.GetEvents() < uint64(len(b.names)) {
		t.Errorf("from the first commit on, the state is verified as %v, %v", v, err)
	}
	for name, want := range map[string]func(float64) bool{
		"coppice_graph_log_damaged_messages":      func(n float64) bool { return n == 0 },
		"coppice_graph_log_bytes":                 func(n float64) bool { return n > 0 && n <= retained },
		"coppice_graph_log_first_sequence":        func(n float64) bool { return n > 1 },
		"coppice_graph_log_cut_timestamp_seconds": func(n float64) bool { return n > 0 },
	} {
		if got := metric(t, b.registry, name); !want(got) {
			t.Errorf("metric %s is %v", name, got)
		}
	}
	b.s.Stop()
	archives(t, b.out, b.registry)
	s := b.serve(t.TempDir(), b.store, nil).writing()
	b.has(b.names...)
	s.Stop()
}

// If the newest verified snapshot is damaged, the log is cut again as soon as another one is verified,
// also after a start, when only the compressed size of what was archived since is known.
func TestRetentionBehindDamagedSnapshot(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	b.blank = true
	b.start(b.store, nil)
	b.cut(b.extent().First)
	id, _ := b.at()
	b.s.Stop()
	_, newest, ok, err := archive.NewestVerified(b.Ctx, b.store, id)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	name := archive.SnapshotName(id, newest.Sequence).String()
	b.damage(name)
	b.start(b.store, func(c *graph.Config) { c.Registry = prometheus.NewRegistry() })
	b.cut(max(b.extent().First, newest.Position))
	b.s.Stop()
	if said := b.out.String(); !strings.Contains(said, "cannot be used, and is passed over") || !strings.Contains(said, name) {
		t.Errorf("the log does not name the damaged snapshot %s", name)
	}
}

// A deletion whose commits are in the archive alone can be undone, by its revision and by uids.
func TestUndoAfterCut(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	b.start(b.store, nil)
	collect(t, b.installation)
	objects := b.application().Resource(configMaps, "undone")
	object := func(name string) *client.Object {
		return &client.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &client.ObjectMeta{Name: name}}
	}
	owner, err := objects.Create(b.Ctx, object("owner"))
	must.Succeed(t, err)
	for _, name := range []string{"a", "b"} {
		o := object(name)
		o.Metadata.OwnerReferences = []*client.OwnerReference{client.NewOwnerReference(owner)}
		if _, err := objects.Create(b.Ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	alone, err := objects.Create(b.Ctx, object("alone"))
	must.Succeed(t, err)
	if _, err := objects.Delete(b.Ctx, "alone"); err != nil {
		t.Fatal(err)
	}
	var reply client.Reply
	if _, err := objects.Delete(b.Ctx, "owner", client.ReplyInto(&reply)); err != nil {
		t.Fatal(err)
	}
	names := func() string {
		var list []string
		for o, err := range objects.List(b.Ctx) {
			must.Succeed(t, err)
			list = append(list, o.GetMetadata().GetName())
		}
		return strings.Join(list, " ")
	}
	testkit.WaitFor(t, b.Ctx, "the end of the cascade", func() bool { return names() == "" })
	b.cut(b.extent().Last)

	operator := b.as(bus.RoleOperator)
	b.setBy(operator, "1MiB") // as it is; the reply corrects the clock of this client
	for _, r := range []restore.Request{{CascadeOf: reply.Revision}, {UIDs: []string{alone.GetMetadata().GetUid()}}} {
		p, err := restore.Prepare(b.Ctx, operator, r)
		if err != nil || len(p.Refusals) > 0 {
			t.Fatalf("the plan to restore %+v: %+v, %v", r, p, err)
		}
		must.Succeed(t, p.Run(b.Ctx, nil))
	}
	if is := names(); is != "a alone b owner" {
		t.Errorf("restored: %s", is)
	}
	owner, err = objects.Get(b.Ctx, "owner")
	must.Succeed(t, err)
	for _, name := range []string{"a", "b"} {
		if o, err := objects.Get(b.Ctx, name); err != nil || len(o.GetMetadata().GetOwnerReferences()) != 1 || o.GetMetadata().GetOwnerReferences()[0].GetUid() != owner.GetMetadata().GetUid() {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
}

// collect runs a processor until the test has ended.
func collect(tb testing.TB, n *installation) {
	tb.Helper()
	p, err := processor.New(processor.Config{Conn: n.Conn(bus.RoleProcessor)})
	must.Succeed(tb, err)
	ctx, stop := context.WithCancel(tb.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			tb.Error(err)
		}
	})
}

// An announcement of a cut up to a position that the stream does not have, because an earlier backup of it was restored, is
// deleted by the next writer.
func TestAnnouncementBehindTheEnd(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	announced := func() eventlog.Announcement {
		t.Helper()
		e, err := a.log().Announced(t.Context())
		must.Succeed(t, err)
		return e
	}
	if err := a.log().Announce(t.Context(), 1000, time.Now()); err != nil || announced().Position != 1000 {
		t.Fatalf("%+v, %v", announced(), err)
	}
	a.creates("two")
	if e := announced(); e.Position > 0 {
		t.Errorf("%+v", e)
	}
}
