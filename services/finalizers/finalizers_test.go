package finalizers_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/finalizers"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const realm = bus.DefaultRealm

// bench is the service with its queues. The test plays the graph service.
type bench struct {
	t       *testing.T
	ctx     context.Context
	server  *natsd.Server
	graph   *nats.Conn
	js      jetstream.JetStream
	service *finalizers.Service
}

func start(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, ctx: testkit.Context(t), server: testkit.NATS(t)}
	b.graph = testkit.Conn(t, b.server, bus.RoleAnswers)
	b.js = testkit.JetStream(t, b.server, bus.RoleGraph)
	var err error
	b.service, err = finalizers.New(finalizers.Config{Conn: testkit.Conn(t, b.server, bus.RoleFinalizers), Instance: "tested"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) streams() *bench {
	b.t.Helper()
	if err := bus.EnsureStreams(b.ctx, b.js, realm, 1); err != nil {
		b.t.Fatal(err)
	}
	return b
}

func (b *bench) enqueue(queue string, chunk proto.Message) {
	b.t.Helper()
	data, err := proto.Marshal(chunk)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.js.Publish(b.ctx, bus.WorkSubject(realm, queue), data); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) waitForEnd() {
	b.t.Helper()
	testkit.WaitFor(b.t, b.ctx, "the queues to be empty", func() bool {
		ctx, cancel := testkit.Attempt(b.ctx)
		defer cancel()
		s, err := b.js.Stream(ctx, bus.WorkStream(realm))
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
}

func packed(u string) []byte { return []byte(uid.MustParse(u)) }

// The references of dependents to the owners that a message names are removed.
func TestOrphan(t *testing.T) {
	t.Parallel()
	b := start(t).streams()
	asked := make(chan *coppicev1.OrphanRequest, 10)
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpOrphan), &coppicev1.OrphanRequest{},
		func(q *coppicev1.OrphanRequest) (*coppicev1.OrphanReply, *lifecycle.Error) {
			asked <- proto.Clone(q).(*coppicev1.OrphanRequest)
			return &coppicev1.OrphanReply{Orphaned: 3}, nil
		})
	chunk := &coppicev1.OrphanChunk{Groups: []*coppicev1.DependentsOf{
		{Owner: packed("web"), Dependents: append(packed("a"), packed("b")...), Revision: 7},
		{Owner: packed("api"), Dependents: packed("c"), Revision: 8},
	}}
	b.enqueue(bus.QueueOrphan, chunk)
	got := testkit.Receive(t, b.ctx, "a request", asked)
	if want := (&coppicev1.OrphanRequest{Groups: chunk.GetGroups(), Protocol: bus.Protocol}); !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	b.waitForEnd()
}

// The contents of the namespaces and kinds that a message names are deleted.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := start(t).streams()
	asked := make(chan *coppicev1.DrainRequest, 10)
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpDrain), &coppicev1.DrainRequest{},
		func(q *coppicev1.DrainRequest) (*coppicev1.DrainReply, *lifecycle.Error) {
			asked <- proto.Clone(q).(*coppicev1.DrainRequest)
			return &coppicev1.DrainReply{Drained: 3}, nil
		})
	chunk := &coppicev1.DrainChunk{Groups: []*coppicev1.DependentsOf{
		{Owner: packed("shop"), Dependents: append(packed("a"), packed("b")...), Revision: 7},
		{Owner: packed("kind"), Dependents: packed("c"), Revision: 8},
	}}
	b.enqueue(bus.QueueDrain, chunk)
	got := testkit.Receive(t, b.ctx, "a request", asked)
	if want := (&coppicev1.DrainRequest{Groups: chunk.GetGroups(), Protocol: bus.Protocol}); !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	b.waitForEnd()
}

// A built-in finalizer is removed from the objects that may be done with it.
// One that is not done after all is no error: it will be pending again.
func TestFinish(t *testing.T) {
	t.Parallel()
	b := start(t).streams()
	asked := make(chan *coppicev1.FinishRequest, 10)
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpFinish), &coppicev1.FinishRequest{},
		func(q *coppicev1.FinishRequest) (*coppicev1.FinishReply, *lifecycle.Error) {
			asked <- proto.Clone(q).(*coppicev1.FinishRequest)
			return &coppicev1.FinishReply{}, nil
		})
	before := ""
	for _, f := range []string{lifecycle.FinalizerForeground, lifecycle.FinalizerOrphan} {
		uids := append(packed("a"), packed("b")...)
		b.enqueue(bus.QueueFinish, &coppicev1.FinishChunk{Finalizer: f, Uids: uids})
		got := testkit.Receive(t, b.ctx, "a request", asked)
		for got.GetFinalizer() == before { // repeated, because its reply was late
			got = testkit.Receive(t, b.ctx, "a request", asked)
		}
		before = f
		if want := (&coppicev1.FinishRequest{Finalizer: f, Uids: uids, Protocol: bus.Protocol}); !proto.Equal(got, want) {
			t.Errorf("asked for %v, want %v", got, want)
		}
	}
	b.waitForEnd()
}

// While no writer answers, the work stays in its queue. The service may start before its
// queues exist.
func TestWaits(t *testing.T) {
	t.Parallel()
	b := start(t)
	if b.service.Ready() == nil {
		t.Error("ready without queues")
	}
	b.streams()
	testkit.WaitFor(t, b.ctx, "the service to be ready", func() bool { return b.service.Ready() == nil })
	b.enqueue(bus.QueueFinish, &coppicev1.FinishChunk{Finalizer: lifecycle.FinalizerOrphan, Uids: packed("a")})
	testkit.WaitFor(t, b.ctx, "the service to have taken the chunk", func() bool {
		ctx, cancel := testkit.Attempt(b.ctx)
		defer cancel()
		c, err := b.js.Consumer(ctx, bus.WorkStream(realm), bus.DurableFinish)
		return err == nil && c.CachedInfo().NumAckPending == 1
	})
	var calls atomic.Int32
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpFinish), &coppicev1.FinishRequest{},
		func(*coppicev1.FinishRequest) (*coppicev1.FinishReply, *lifecycle.Error) {
			if calls.Add(1) < 3 {
				return nil, &lifecycle.Error{Reason: lifecycle.ReasonServiceUnavailable, Message: "not the writer any more", RetryAfter: time.Millisecond}
			}
			return &coppicev1.FinishReply{Finished: 1}, nil
		})
	b.waitForEnd()
	if n := calls.Load(); n < 3 || n > 6 { // a request without a timely reply is repeated
		t.Errorf("asked %d times", n)
	}
}

// A message that cannot be read, or that the writer refuses for good, is parked.
func TestParks(t *testing.T) {
	t.Parallel()
	b := start(t).streams()
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpFinish), &coppicev1.FinishRequest{},
		func(*coppicev1.FinishRequest) (*coppicev1.FinishReply, *lifecycle.Error) {
			return nil, &lifecycle.Error{Reason: lifecycle.ReasonBadRequest, Message: "not built in"}
		})
	for _, queue := range []string{bus.QueueOrphan, bus.QueueDrain} {
		if _, err := b.js.Publish(b.ctx, bus.WorkSubject(realm, queue), []byte("no chunk")); err != nil {
			t.Fatal(err)
		}
	}
	b.enqueue(bus.QueueFinish, &coppicev1.FinishChunk{Finalizer: "example.com/x", Uids: packed("a")})
	b.waitForEnd()
	s, err := b.js.Stream(b.ctx, bus.ParkedStream(realm))
	if err != nil {
		t.Fatal(err)
	}
	for sequence, queue := range []string{bus.QueueOrphan, bus.QueueDrain, bus.QueueFinish} {
		m, err := s.GetLastMsgForSubject(b.ctx, bus.ParkedSubject(realm, bus.WorkSubject(realm, queue), uint64(sequence)+1))
		if err != nil {
			t.Fatalf("%s: %v", queue, err)
		}
		var parked coppicev1.Parked
		if err := proto.Unmarshal(m.Data, &parked); err != nil || parked.GetError() == "" || parked.GetBy() != "tested" {
			t.Errorf("parked as %v, %v", &parked, err)
		}
	}
}

// Chunks of a newer format stay in their queues, and nothing is requested because of them.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	b := start(t).streams()
	asked := make(chan string, 100)
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpOrphan), &coppicev1.OrphanRequest{},
		func(*coppicev1.OrphanRequest) (*coppicev1.OrphanReply, *lifecycle.Error) {
			asked <- bus.OpOrphan
			return &coppicev1.OrphanReply{}, nil
		})
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpDrain), &coppicev1.DrainRequest{},
		func(*coppicev1.DrainRequest) (*coppicev1.DrainReply, *lifecycle.Error) {
			asked <- bus.OpDrain
			return &coppicev1.DrainReply{}, nil
		})
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpFinish), &coppicev1.FinishRequest{},
		func(*coppicev1.FinishRequest) (*coppicev1.FinishReply, *lifecycle.Error) {
			asked <- bus.OpFinish
			return &coppicev1.FinishReply{}, nil
		})
	groups := []*coppicev1.DependentsOf{{Owner: packed("web"), Dependents: packed("a"), Revision: 7}}
	for queue, chunk := range map[string]proto.Message{
		bus.QueueOrphan: &coppicev1.OrphanChunk{Groups: groups, Format: worker.Format + 1},
		bus.QueueDrain:  &coppicev1.DrainChunk{Groups: groups, Format: worker.Format + 1},
		bus.QueueFinish: &coppicev1.FinishChunk{Finalizer: lifecycle.FinalizerOrphan, Uids: packed("a"), Format: worker.Format + 1},
	} {
		b.enqueue(queue, chunk)
	}
	testkit.WaitFor(t, b.ctx, "each chunk to be refused", func() bool {
		ctx, cancel := testkit.Attempt(b.ctx)
		defer cancel()
		refused := 0
		for _, durable := range []string{bus.DurableOrphan, bus.DurableDrain, bus.DurableFinish} {
			c, err := b.js.Consumer(ctx, bus.WorkStream(realm), durable)
			if err == nil && c.CachedInfo().NumRedelivered > 0 {
				refused++
			}
		}
		return refused == 3
	})
	select {
	case op := <-asked:
		t.Errorf("%s was requested", op)
	default:
	}
}
