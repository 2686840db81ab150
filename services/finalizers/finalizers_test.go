package finalizers_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/finalizers"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const realm = bus.DefaultRealm

// finalizing is a realm with the service of built-in finalizers. The test plays the graph service.
type finalizing struct {
	*testkit.Realm
	graph   *nats.Conn
	service *finalizers.Service
}

// start starts the service, in a realm that has no queues yet.
func start(t *testing.T) *finalizing {
	t.Helper()
	b := &finalizing{Realm: testkit.NewRealm(t)}
	b.graph = b.Conn(bus.RoleAnswers)
	var err error
	if b.service, err = finalizers.New(finalizers.Config{Conn: b.Conn(bus.RoleFinalizers), Instance: "tested"}); err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, b.service.Run)
	return b
}

// startWithQueues is start in a realm with queues.
func startWithQueues(t *testing.T) *finalizing {
	t.Helper()
	b := start(t)
	b.Streams()
	return b
}

// asked gives a reply to the requests for an operation, and returns the requests.
func asked[Q, R proto.Message](b *finalizing, op string, request Q, reply R) <-chan Q {
	b.Helper()
	requests := make(chan Q, 100)
	testkit.Answer(b, b.graph, bus.InternalSubject(realm, op), request, func(q Q) (R, *lifecycle.Error) {
		requests <- proto.Clone(q).(Q)
		return reply, nil
	})
	return requests
}

func packed(u string) []byte { return []byte(uid.MustParse(u)) }

// The references of dependents to the owners that a message names are removed.
func TestOrphan(t *testing.T) {
	t.Parallel()
	b := startWithQueues(t)
	requests := asked(b, bus.OpOrphan, &coppicev1.OrphanRequest{}, &coppicev1.OrphanReply{Orphaned: 3})
	chunk := &coppicev1.OrphanChunk{Groups: []*coppicev1.DependentsOf{
		{Owner: packed("web"), Dependents: append(packed("a"), packed("b")...), Revision: 7},
		{Owner: packed("api"), Dependents: packed("c"), Revision: 8},
	}}
	b.Enqueue(bus.QueueOrphan, chunk)
	got := testkit.Receive(t, b.Ctx, "a request", requests)
	if want := (&coppicev1.OrphanRequest{Groups: chunk.GetGroups(), Protocol: bus.Protocol}); !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	b.WaitForEmptyQueues()
}

// The contents of the namespaces and kinds that a message names are deleted.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := startWithQueues(t)
	requests := asked(b, bus.OpDrain, &coppicev1.DrainRequest{}, &coppicev1.DrainReply{Drained: 3})
	chunk := &coppicev1.DrainChunk{Groups: []*coppicev1.DependentsOf{
		{Owner: packed("shop"), Dependents: append(packed("a"), packed("b")...), Revision: 7},
		{Owner: packed("kind"), Dependents: packed("c"), Revision: 8},
	}}
	b.Enqueue(bus.QueueDrain, chunk)
	got := testkit.Receive(t, b.Ctx, "a request", requests)
	if want := (&coppicev1.DrainRequest{Groups: chunk.GetGroups(), Protocol: bus.Protocol}); !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	b.WaitForEmptyQueues()
}

// A built-in finalizer is removed from the objects that may be done with it.
// One that is not done after all is no error: it will be pending again.
func TestFinish(t *testing.T) {
	t.Parallel()
	b := startWithQueues(t)
	requests := asked(b, bus.OpFinish, &coppicev1.FinishRequest{}, &coppicev1.FinishReply{})
	before := ""
	for _, f := range []string{lifecycle.FinalizerForeground, lifecycle.FinalizerOrphan} {
		uids := append(packed("a"), packed("b")...)
		b.Enqueue(bus.QueueFinish, &coppicev1.FinishChunk{Finalizer: f, Uids: uids})
		got := testkit.Receive(t, b.Ctx, "a request", requests)
		for got.GetFinalizer() == before { // repeated, because its reply was late
			got = testkit.Receive(t, b.Ctx, "a request", requests)
		}
		before = f
		if want := (&coppicev1.FinishRequest{Finalizer: f, Uids: uids, Protocol: bus.Protocol}); !proto.Equal(got, want) {
			t.Errorf("asked for %v, want %v", got, want)
		}
	}
	b.WaitForEmptyQueues()
}

// While no writer answers, the work stays in its queue. The service may start before its
// queues exist.
func TestWaits(t *testing.T) {
	t.Parallel()
	b := start(t)
	if b.service.Ready() == nil {
		t.Error("the service is ready without queues")
	}
	b.Streams()
	b.WaitUntilReady(b.service)
	b.Enqueue(bus.QueueFinish, &coppicev1.FinishChunk{Finalizer: lifecycle.FinalizerOrphan, Uids: packed("a")})
	b.WaitForConsumer(bus.DurableFinish, "the service to have taken the chunk", func(c *jetstream.ConsumerInfo) bool { return c.NumAckPending == 1 })
	var calls atomic.Int32
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpFinish), &coppicev1.FinishRequest{},
		func(*coppicev1.FinishRequest) (*coppicev1.FinishReply, *lifecycle.Error) {
			if calls.Add(1) < 3 {
				return nil, &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "not the writer any more", RetryAfter: time.Millisecond}
			}
			return &coppicev1.FinishReply{Finished: 1}, nil
		})
	b.WaitForEmptyQueues()
	if n := calls.Load(); n < 3 || n > 6 { // a request without a timely reply is repeated
		t.Errorf("asked %d times", n)
	}
}

// A message that cannot be read, or that the writer refuses for good, is parked.
func TestParks(t *testing.T) {
	t.Parallel()
	b := startWithQueues(t)
	testkit.Answer(t, b.graph, bus.InternalSubject(realm, bus.OpFinish), &coppicev1.FinishRequest{},
		func(*coppicev1.FinishRequest) (*coppicev1.FinishReply, *lifecycle.Error) {
			return nil, &lifecycle.Error{Reason: api.ErrBadRequest, Message: "not built in"}
		})
	for _, queue := range []string{bus.QueueOrphan, bus.QueueDrain} {
		b.Publish(bus.WorkSubject(realm, queue), []byte("no chunk"))
	}
	b.Enqueue(bus.QueueFinish, &coppicev1.FinishChunk{Finalizer: "example.com/x", Uids: packed("a")})
	b.WaitForEmptyQueues()
	for sequence, queue := range []string{bus.QueueOrphan, bus.QueueDrain, bus.QueueFinish} {
		if p := b.Parked(bus.WorkSubject(realm, queue), uint64(sequence)+1); p.GetError() == "" || p.GetBy() != "tested" {
			t.Errorf("parked %v, want an error, by the service", p)
		}
	}
}

// Chunks of a newer format stay in their queues, and nothing is requested because of them.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	b := startWithQueues(t)
	orphans := asked(b, bus.OpOrphan, &coppicev1.OrphanRequest{}, &coppicev1.OrphanReply{})
	drains := asked(b, bus.OpDrain, &coppicev1.DrainRequest{}, &coppicev1.DrainReply{})
	finishes := asked(b, bus.OpFinish, &coppicev1.FinishRequest{}, &coppicev1.FinishReply{})
	groups := []*coppicev1.DependentsOf{{Owner: packed("web"), Dependents: packed("a"), Revision: 7}}
	for queue, chunk := range map[string]proto.Message{
		bus.QueueOrphan: &coppicev1.OrphanChunk{Groups: groups, Format: worker.Format + 1},
		bus.QueueDrain:  &coppicev1.DrainChunk{Groups: groups, Format: worker.Format + 1},
		bus.QueueFinish: &coppicev1.FinishChunk{Finalizer: lifecycle.FinalizerOrphan, Uids: packed("a"), Format: worker.Format + 1},
	} {
		b.Enqueue(queue, chunk)
	}
	for _, durable := range []string{bus.DurableOrphan, bus.DurableDrain, bus.DurableFinish} {
		b.WaitForConsumer(durable, "the chunk to be refused", func(c *jetstream.ConsumerInfo) bool { return c.NumRedelivered > 0 })
	}
	if n := len(orphans) + len(drains) + len(finishes); n > 0 {
		t.Errorf("%d requests were sent for chunks of a newer format, want none", n)
	}
}
