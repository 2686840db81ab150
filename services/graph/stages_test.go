package graph_test

import (
	"context"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// staged is how many objects go through a stage at once: as many as are in a
// commit of a large cascade.
const staged = 4000

// stage is a state on disk with one owner that is gone and its dependents.
type stage struct {
	b          *testing.B
	state      *state.State
	sequence   uint64
	root       uid.UID
	dependents []uid.UID
}

func newStage(b *testing.B) *stage {
	b.Helper()
	s, err := state.Open(b.TempDir(), state.Config{})
	must.Succeed(b, err)
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	g := &stage{b: b, state: s}
	for _, spec := range lifecycle.BuiltinKinds() {
		g.commit(func(ctx *lifecycle.Context) []lifecycle.Event {
			at := lifecycle.Key{Kind: ctx.Kinds().Of(lifecycle.Group, "Kind")}
			return g.create(ctx, at, lifecycletest.Registration(spec))
		})
	}
	g.commit(func(ctx *lifecycle.Context) []lifecycle.Event {
		at := lifecycle.Key{Kind: ctx.Kinds().Resource("replicasets.apps"), Namespace: "default"}
		events := g.create(ctx, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "root"}})
		g.root = events[0].UID
		return events
	})
	g.commit(g.creation)
	g.commit(func(ctx *lifecycle.Context) []lifecycle.Event {
		out, refusal := lifecycle.Delete(ctx, lifecycle.Key{Kind: ctx.Kinds().Resource("replicasets.apps"), Namespace: "default", Name: "root"}, "", nil)
		must.Succeed(b, refusal)
		return out.Events
	})
	return g
}

func (g *stage) create(ctx *lifecycle.Context, at lifecycle.Key, o *coppicev1.Object) []lifecycle.Event {
	g.b.Helper()
	out, refusal := lifecycle.Create(ctx, at, o)
	must.Succeed(g.b, refusal)
	return out.Events
}

// creation decides the creation of the dependents.
func (g *stage) creation(ctx *lifecycle.Context) (events []lifecycle.Event) {
	at := lifecycle.Key{Kind: ctx.Kinds().Resource("pods"), Namespace: "default"}
	g.dependents = g.dependents[:0]
	for range staged {
		u := uid.New().String()
		created := g.create(ctx, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
			Name: "pod-" + u[9:], Labels: map[string]string{"app": "stage", "tier": "back"},
			OwnerReferences: []*coppicev1.OwnerReference{{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "root", Uid: g.root.String()}},
		}, Spec: []byte(`{"containers":[{"image":"registry.example.com/team/service:1.27.3","name":"main"}]}`)})
		g.dependents = append(g.dependents, created[0].UID)
		events = append(events, created...)
	}
	return events
}

func (g *stage) context(tx *state.Tx) *lifecycle.Context {
	return &lifecycle.Context{View: tx, Now: lifecycle.Time(g.sequence + 1), NewUID: uid.New, MaxObject: 1 << 20}
}

// begin applies what is decided to a Tx, and ends its commit.
func (g *stage) begin(decide func(*lifecycle.Context) []lifecycle.Event) *state.Tx {
	g.b.Helper()
	tx := g.state.Begin()
	g.apply(tx, decide(g.context(tx)))
	g.sequence++
	tx.EndCommit(state.Commit{Sequence: g.sequence, Epoch: 1, Time: lifecycle.Time(g.sequence), Checksum: g.sequence})
	return tx
}

func (g *stage) apply(tx *state.Tx, events []lifecycle.Event) {
	g.b.Helper()
	for i := range events {
		body, err := state.Encode(events[i].Object.Body)
		must.Succeed(g.b, err)
		if _, err := tx.Add(&events[i], tx.Checkpoint().GetRevision()+1, body); err != nil {
			g.b.Fatal(err)
		}
	}
}

func (g *stage) commit(decide func(*lifecycle.Context) []lifecycle.Event) {
	g.b.Helper()
	if _, err := g.begin(decide).Apply(); err != nil {
		g.b.Fatal(err)
	}
}

// removal decides the removal of the dependents, whose owner is gone.
func (g *stage) removal(ctx *lifecycle.Context) (events []lifecycle.Event) {
	g.b.Helper()
	ctx.View.(*state.Tx).Prefetch(g.dependents)
	for _, u := range g.dependents {
		events = append(events, lifecycle.Collect(ctx, ctx.Node(u))...)
	}
	if len(events) != staged {
		g.b.Fatalf("%d events, want %d", len(events), staged)
	}
	return events
}

// perObject reports what one object costs.
func perObject(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/staged, "ns/object")
}

// BenchmarkStages measures the stages of a cascade one by one, on a state on
// disk: 4,000 dependents of an owner that is gone, at a time.
func BenchmarkStages(b *testing.B) {
	b.Run("scan edges", func(b *testing.B) {
		g := newStage(b)
		b.ReportAllocs()
		for b.Loop() {
			snap := g.state.Snapshot()
			n := 0
			snap.Dependents(g.root, state.ClaimFilter{}, state.Edge{}, func(state.Edge, uid.UID) bool {
				n++
				return true
			})
			if err := snap.Close(); err != nil || n != staged {
				b.Fatalf("%d edges: %v", n, err)
			}
		}
		perObject(b)
	})
	b.Run("classify", func(b *testing.B) {
		g := newStage(b)
		b.ReportAllocs()
		for b.Loop() {
			snap := g.state.Snapshot()
			if r := resolve.Resolve(snap, g.dependents, staged, 1, nil); len(r.GetUids()) != staged*uid.PackedUUID {
				b.Fatalf("%d bytes of uids are resolved", len(r.GetUids()))
			}
			must.Succeed(b, snap.Close())
		}
		perObject(b)
	})
	b.Run("decide", func(b *testing.B) {
		g := newStage(b)
		b.ReportAllocs()
		for b.Loop() {
			tx := g.state.Begin()
			g.apply(tx, g.removal(g.context(tx)))
		}
		perObject(b)
	})
	b.Run("encode", func(b *testing.B) {
		g := newStage(b)
		tx := g.state.Begin()
		events := g.removal(g.context(tx))
		b.ReportAllocs()
		size := 0
		for b.Loop() {
			size = len(encode(tx, events))
		}
		b.ReportMetric(float64(size)/staged, "B/object")
		perObject(b)
	})
	b.Run("append", func(b *testing.B) {
		g := newStage(b)
		tx := g.state.Begin()
		commit := encode(tx, g.removal(g.context(tx)))
		log, err := eventlog.Open(context.Background(), testkit.JetStream(b, testkit.NATS(b), bus.RoleGraph), bus.DefaultRealm, 1, eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm))
		must.Succeed(b, err)
		b.ReportAllocs()
		sequence := uint64(0)
		for b.Loop() {
			if _, err := log.Append(context.Background(), sequence, [16]byte{1}, commit); err != nil {
				b.Fatal(err)
			}
			sequence++
		}
		perObject(b)
	})
	for _, stage := range []string{"apply creations", "apply removals"} {
		b.Run(stage, func(b *testing.B) {
			g := newStage(b)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				first, second := g.removal, g.creation
				if stage == "apply creations" {
					first, second = second, first
					g.commit(second)
				}
				tx := g.begin(first)
				b.StartTimer()
				if _, err := tx.Apply(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if stage == "apply removals" {
					g.commit(second)
				}
				b.StartTimer()
			}
			perObject(b)
		})
	}
}

// encode is the commit with these events.
func encode(tx *state.Tx, events []lifecycle.Event) []byte {
	c := eventlog.NewBuilder(eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{1}, Epoch: 1, Time: 1, FirstRevision: 1, Key: 1})
	c.Begin(eventlog.Command{Actor: "processor", Verb: "propose"})
	for i := range events {
		c.Add(&events[i], tx.Node(events[i].UID), "pods", nil)
	}
	c.End(eventlog.CommandRef{}, nil)
	return c.Bytes()
}
