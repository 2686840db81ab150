package processor_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/resolution"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/processor"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const realm = bus.DefaultRealm

// never is a revision that the graph service of the test does not reach.
const never = 1 << 60

// facts are what a replica's reply says about an object.
type facts struct {
	uid     string
	traits  lifecycle.Traits
	classes []lifecycle.Class
}

const (
	solid    = coppicev1.OwnerClass_OWNER_CLASS_SOLID
	waiting  = coppicev1.OwnerClass_OWNER_CLASS_WAITING
	dangling = coppicev1.OwnerClass_OWNER_CLASS_DANGLING
	unknown  = coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN
)

// processing is a realm with a processor. The test plays the graph service: what the processor asks for comes in channels.
type processing struct {
	*testkit.Realm
	service   *processor.Service
	asked     chan *coppicev1.ResolveRequest
	at        atomic.Uint64 // the revision of the last question
	proposals chan *coppicev1.ProposeRequest
	parts     bool // the graph service resolves one object at a time
}

// start starts a processor, in a realm with queues.
func start(t *testing.T) *processing {
	t.Helper()
	b := startWith(t, processor.Config{})
	b.Streams()
	return b
}

// startWith starts a processor in a realm that has no queues yet.
func startWith(t *testing.T, c processor.Config) *processing {
	t.Helper()
	b := &processing{
		Realm: testkit.NewRealm(t),
		asked: make(chan *coppicev1.ResolveRequest, 1000), proposals: make(chan *coppicev1.ProposeRequest, 1000),
	}
	var err error
	c.Conn, c.Instance, c.Registry = b.Conn(bus.RoleProcessor), "tested", prometheus.NewRegistry()
	if b.service, err = processor.New(c); err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, b.service.Run)
	return b
}

// graph answers with these facts, and to proposals with what propose says. To a question at
// revision never it answers with object stale, which is dangling, at an older revision.
func (b *processing) graph(list []facts, propose func(*coppicev1.ProposeRequest) *coppicev1.ProposeReply) {
	b.Helper()
	nc := b.Conn(bus.RoleAnswers)
	testkit.Answer(b, nc, bus.InternalSubject(realm, bus.OpResolve), &coppicev1.ResolveRequest{},
		func(q *coppicev1.ResolveRequest) (*coppicev1.ResolveReply, *lifecycle.Error) {
			b.at.Store(q.GetMinRevision())
			b.asked <- proto.Clone(q).(*coppicev1.ResolveRequest)
			if q.GetMinRevision() == never {
				reply := &coppicev1.ResolveReply{Revision: 7}
				resolution.Append(reply, uid.MustParse("stale"), lifecycle.Live, []lifecycle.Class{dangling})
				return reply, nil
			}
			reply := &coppicev1.ResolveReply{Revision: q.GetMinRevision()}
			if first, rest, err := uid.CutBytes(q.GetUids()); b.parts && q.GetPartial() {
				if err != nil || first == "" {
					return nil, lifecycle.ErrBadRequest("uids: %v", err)
				}
				reply.Left = rest
			}
			for _, f := range list {
				if b.parts && !bytes.HasPrefix(q.GetUids(), []byte(uid.MustParse(f.uid))) {
					continue
				}
				resolution.Append(reply, uid.MustParse(f.uid), f.traits, f.classes)
			}
			return reply, nil
		})
	testkit.Answer(b, nc, bus.InternalSubject(realm, bus.OpPropose), &coppicev1.ProposeRequest{},
		func(q *coppicev1.ProposeRequest) (*coppicev1.ProposeReply, *lifecycle.Error) {
			b.proposals <- proto.Clone(q).(*coppicev1.ProposeRequest)
			return propose(q), nil
		})
}

// dirty enqueues a chunk.
func (b *processing) dirty(groups ...*coppicev1.DependentsOf) {
	b.Helper()
	b.Enqueue(bus.QueueDirty, &coppicev1.DirtyChunk{Groups: groups})
}

func pack(uids ...string) []byte {
	var b []byte
	for _, u := range uids {
		b = append(b, uid.MustParse(u)...)
	}
	return b
}

func unpack(t *testing.T, packed []byte) string {
	t.Helper()
	uids, err := uid.Unpack(nil, packed)
	must.Succeed(t, err)
	return fmt.Sprint(uids)
}

func accept(*coppicev1.ProposeRequest) *coppicev1.ProposeReply { return &coppicev1.ProposeReply{} }

// The proposal is the decision of the rules (A12) on the chunk's objects and on the closure
// in the reply.
func TestProposes(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.graph([]facts{
		{"gone", 0, nil},
		{"solid", lifecycle.Live, []lifecycle.Class{solid}},
		{"strip", lifecycle.Live, []lifecycle.Class{dangling, solid}},
		{"unknown", lifecycle.Live, []lifecycle.Class{dangling, unknown}},
		{"unknown-solid", lifecycle.Live, []lifecycle.Class{dangling, unknown, solid}},
		{"collect", lifecycle.Live, []lifecycle.Class{dangling, dangling}},
		{"foreground", lifecycle.Live | lifecycle.HasDependents, []lifecycle.Class{waiting}},
		{"terminating", lifecycle.Live | lifecycle.IsTerminating, []lifecycle.Class{dangling}},
		{"below", lifecycle.Live, []lifecycle.Class{dangling}},
	}, accept)
	b.dirty(
		&coppicev1.DependentsOf{Owner: pack("web"), Revision: 7, Dependents: pack("gone", "solid")},
		&coppicev1.DependentsOf{Owner: pack("api"), Revision: 9, Dependents: pack("strip")},
	)
	asked := testkit.Receive(t, b.Ctx, "a question", b.asked)
	if got := unpack(t, asked.GetUids()); got != "[gone solid strip]" || asked.GetMinRevision() != 9 || asked.GetClosure() == 0 {
		t.Errorf("asked for %s at %d, closure %d; want all, at the last of their revisions", got, asked.GetMinRevision(), asked.GetClosure())
	}
	p := testkit.Receive(t, b.Ctx, "a proposal", b.proposals)
	if got := unpack(t, p.GetCollect()); got != "[collect foreground below]" {
		t.Errorf("proposes to collect %s", got)
	}
	if got := unpack(t, p.GetStrip()); got != "[strip unknown-solid]" {
		t.Errorf("proposes to strip %s", got)
	}
	b.WaitForEmptyQueues()
}

// Without work, the processor sends no proposal.
func TestNothingToPropose(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.graph([]facts{{"a", lifecycle.Live, []lifecycle.Class{solid}}, {"b", lifecycle.Live, nil}, {"c", 0, nil}}, accept)
	b.dirty(&coppicev1.DependentsOf{Dependents: pack("a", "b", "c")})
	b.WaitForEmptyQueues()
	if n := len(b.proposals); n > 0 {
		t.Errorf("%d proposals", n)
	}
}

// C035: an object that the writer refuses has changed since its evaluation: it alone is evaluated
// again, at the revision of the refusal.
func TestRefusedIsEvaluatedAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.graph([]facts{{"a", lifecycle.Live, []lifecycle.Class{dangling}}, {"b", lifecycle.Live, []lifecycle.Class{dangling}}},
		func(*coppicev1.ProposeRequest) *coppicev1.ProposeReply {
			if b.at.Load() == 42 {
				return &coppicev1.ProposeReply{}
			}
			return &coppicev1.ProposeReply{Collected: 1, Refused: pack("b"), Revision: 42}
		})
	b.dirty(&coppicev1.DependentsOf{Revision: 7, Dependents: pack("a", "b")})
	testkit.Receive(t, b.Ctx, "a question", b.asked)
	testkit.Receive(t, b.Ctx, "a proposal", b.proposals)
	again := testkit.Receive(t, b.Ctx, "a second question", b.asked)
	for again.GetMinRevision() == 7 { // the first one, repeated because its reply was late
		again = testkit.Receive(t, b.Ctx, "a second question", b.asked)
	}
	if got := unpack(t, again.GetUids()); got != "[b]" || again.GetMinRevision() != 42 {
		t.Errorf("asked again for %s at %d, want [b] at 42", got, again.GetMinRevision())
	}
	testkit.Receive(t, b.Ctx, "a second proposal", b.proposals)
	b.WaitForEmptyQueues()
}

// Objects that the replica leaves out, because others are wide, are asked for again.
func TestLeftOutIsEvaluated(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.parts = true
	b.graph([]facts{
		{"a", lifecycle.Live, []lifecycle.Class{dangling}}, {"b", lifecycle.Live, []lifecycle.Class{solid}}, {"c", lifecycle.Live, []lifecycle.Class{dangling}},
	}, accept)
	b.dirty(&coppicev1.DependentsOf{Revision: 7, Dependents: pack("a", "b", "c")})
	for _, want := range []string{"[a]", "[c]"} {
		if got := unpack(t, testkit.Receive(t, b.Ctx, "a proposal", b.proposals).GetCollect()); got != want {
			t.Errorf("proposes to collect %s, want %s", got, want)
		}
	}
	b.WaitForEmptyQueues()
}

// Objects that change during each evaluation do not keep a worker for ever. Their
// chunk comes again after a pause, without the help of the scanner.
func TestChangesDuringEvaluation(t *testing.T) {
	t.Parallel()
	b := start(t)
	const refused = 10 // more than one delivery makes proposals
	n := 0
	b.graph([]facts{{"a", lifecycle.Live, []lifecycle.Class{dangling}}},
		func(q *coppicev1.ProposeRequest) *coppicev1.ProposeReply {
			if n++; n > refused {
				return &coppicev1.ProposeReply{Collected: 1}
			}
			return &coppicev1.ProposeReply{Refused: q.GetCollect(), Revision: 42}
		})
	b.dirty(&coppicev1.DependentsOf{Dependents: pack("a")})
	for range refused + 1 {
		testkit.Receive(t, b.Ctx, "a proposal", b.proposals)
	}
	b.WaitForEmptyQueues()
}

// A processor may start before its queue and the graph service. It logs what it waits
// for, and messages that arrive meanwhile are not lost.
func TestStartsFirst(t *testing.T) {
	t.Parallel()
	b := startWith(t, processor.Config{})
	if b.service.Ready() == nil {
		t.Error("the processor is ready without a queue")
	}
	b.Streams()
	b.WaitUntilReady(b.service)
	b.dirty(&coppicev1.DependentsOf{Dependents: pack("a")})
	b.WaitForConsumer(bus.DurableProcessors, "the processor to have taken the chunk", func(c *jetstream.ConsumerInfo) bool { return c.NumAckPending == 1 })
	b.graph([]facts{{"a", lifecycle.Live, []lifecycle.Class{dangling}}}, accept)
	testkit.Receive(t, b.Ctx, "a proposal", b.proposals)
	b.WaitForEmptyQueues()
}

// A message that is no chunk is parked, and blocks no other message.
func TestParksWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.graph([]facts{{"a", lifecycle.Live, []lifecycle.Class{dangling}}}, accept)
	b.Publish(bus.WorkSubject(realm, bus.QueueDirty), []byte("no chunk"))
	b.dirty(&coppicev1.DependentsOf{Dependents: pack("a")})
	testkit.Receive(t, b.Ctx, "a proposal", b.proposals)
	b.WaitForEmptyQueues()
	if p := b.Parked(bus.WorkSubject(realm, bus.QueueDirty), 1); string(p.GetMessage()) != "no chunk" || p.GetBy() != "tested" {
		t.Errorf("parked %v, want the message, by the processor", p)
	}
}

// A chunk that names a revision which no replica has reached is put back: it does not
// occupy a worker, so that more of them than there are workers do not delay others. After
// ten deliveries it is parked.
func TestRevisionThatDoesNotExist(t *testing.T) {
	t.Parallel()
	const chunks, deliveries = 8, 10
	b := startWith(t, processor.Config{Concurrency: 2, MaxBackoff: time.Millisecond})
	b.Streams()
	b.graph([]facts{{"a", lifecycle.Live, []lifecycle.Class{dangling}}}, accept)
	for range chunks {
		b.dirty(&coppicev1.DependentsOf{Revision: never, Dependents: pack("stale")})
	}
	b.dirty(&coppicev1.DependentsOf{Revision: 7, Dependents: pack("a")})
	b.WaitForEmptyQueues()
	if n := len(b.asked); n < chunks*deliveries+1 || n > 2*chunks*deliveries { // a question without a timely reply is repeated
		t.Errorf("%d questions, want %d for each chunk and 1", n, deliveries)
	}
	if len(b.proposals) == 0 {
		t.Error("no proposal")
	}
	for len(b.proposals) > 0 {
		if got := unpack(t, (<-b.proposals).GetCollect()); got != "[a]" {
			t.Errorf("proposes to collect %s, want [a] only: the state of the others is too old", got)
		}
	}
	if n := b.Stream(bus.ParkedStream(realm)).CachedInfo().State.Msgs; n != chunks {
		t.Errorf("%d chunks are parked, want %d", n, chunks)
	}
}

// A chunk of a newer format stays in its queue, and nothing is requested because of it.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.graph(nil, func(*coppicev1.ProposeRequest) *coppicev1.ProposeReply { return &coppicev1.ProposeReply{} })
	b.Enqueue(bus.QueueDirty, &coppicev1.DirtyChunk{Format: worker.Format + 1, Groups: []*coppicev1.DependentsOf{{Revision: 7, Dependents: []byte(uid.New())}}})
	b.WaitForConsumer(bus.DurableProcessors, "the chunk to be refused", func(c *jetstream.ConsumerInfo) bool { return c.NumRedelivered > 0 })
	select {
	case q := <-b.asked:
		t.Errorf("asked for %v", q)
	default:
	}
}
