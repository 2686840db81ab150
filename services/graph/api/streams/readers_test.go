package streams_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	graphapi "github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/api/streams"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// madeLog is a log whose messages are made when they are read.
type madeLog struct {
	keys    *eventlog.Keys
	last    uint64
	message func(sequence uint64) []byte
	reads   atomic.Int64
	gate    chan struct{} // each read takes one, if it is not nil
}

func (l *madeLog) Readable(context.Context) (eventlog.Readable, error) {
	return eventlog.Readable{First: 1, Last: l.last}, nil
}

func (l *madeLog) Keys() *eventlog.Keys { return l.keys }

func (l *madeLog) Skips(context.Context, eventlog.Message, *eventlog.Header) (string, error) {
	return "", nil
}

func (l *madeLog) Seek(context.Context, uint64) (uint64, error) { return 1, nil }

func (l *madeLog) Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) (pending uint64, err error) {
	l.reads.Add(1)
	if l.gate != nil {
		select {
		case <-l.gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	at, bytes := from, 0
	for ; at <= l.last && at < from+uint64(limit) && bytes < maxBytes; at++ {
		data := l.message(at)
		bytes += len(data)
		if err := visit(eventlog.Message{Position: at, Data: data, Pending: l.last - at}); err != nil {
			return 0, err
		}
	}
	return l.last + 1 - at, nil
}

// readers is a replica's service, which reads a log that is made, and a client of it.
type readers struct {
	t      *testing.T
	server *natsd.Server
	js     jetstream.JetStream // of the service
	ctx    context.Context
	client *nats.Conn
}

// heartbeat is that of the tests: often enough that they wait for several.
const heartbeat = 10 * time.Millisecond

func serveReaders(t *testing.T, log *madeLog, verify func(context.Context, bool, func(sequence, last uint64)) (*coppicev1.VerifyReply, error)) *readers {
	t.Helper()
	return serveReadersWithin(t, nil, log, verify)
}

// serveReadersWithin is serveReaders for a service of a process with other realms.
func serveReadersWithin(
	t *testing.T, process *serve.Process, log *madeLog, verify func(context.Context, bool, func(sequence, last uint64)) (*coppicev1.VerifyReply, error),
) *readers {
	t.Helper()
	s, err := state.Open("state", state.Config{FS: vfs.NewMem()})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	n := testkit.NATS(t)
	answers, js := testkit.Conn(t, n, bus.RoleAnswers), testkit.JetStream(t, n, bus.RoleGraph)
	service, err := graphapi.ServeReplica(serve.Config{Realm: bus.DefaultRealm, Conn: answers, State: s, Process: process, Log: slog.New(slog.DiscardHandler)}, graphapi.ReplicaConfig{
		Reached: func(ctx context.Context, _ uint64) error { <-ctx.Done(); return ctx.Err() },
		Now:     time.Now,
		Streams: streams.Config{Heartbeat: heartbeat, Log: log, Verify: verify, JS: js},
	})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := service.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := answers.Flush(); err != nil { // the server has the subscription
		t.Fatal(err)
	}
	return &readers{t: t, server: n, js: js, ctx: testkit.Context(t), client: testkit.Conn(t, n, bus.RoleOperator)}
}

// reply is a reply that is a stream.
type reply struct {
	*readers
	sub  *nats.Subscription
	json bool
}

// ask sends a request as an actor, whose replies the client keeps until they are
// taken, however many there are.
func (r *readers) ask(verb string, request proto.Message, json bool) *reply {
	r.t.Helper()
	sub, err := r.client.SubscribeSync(r.client.NewInbox())
	must.Succeed(r.t, err)
	must.Succeed(r.t, sub.SetPendingLimits(-1, -1))
	subject := bus.RealmAPI(bus.DefaultRealm, bus.RoleOperator, verb).Subject()
	header := rpc.Header(subject, nil)
	data, err := rpc.Encode(request)
	if json {
		header.Set(bus.HeaderContentType, bus.ContentJSON)
		data = []byte(strings.Replace(manifestOf(r.t, request), "{", `{"protocol":1,`, 1))
	}
	if err == nil {
		err = r.client.PublishMsg(&nats.Msg{Subject: subject, Reply: sub.Subject, Header: header, Data: data})
	}
	must.Succeed(r.t, err)
	return &reply{readers: r, sub: sub, json: json}
}

func manifestOf(t *testing.T, m proto.Message) string {
	t.Helper()
	data, err := manifest.MarshalMessage(m)
	must.Succeed(t, err)
	return string(data)
}

// next returns the next message of the reply, false at its end, or the refusal.
func (p *reply) next(into proto.Message) (size int, more bool, refused error) {
	p.t.Helper()
	m, err := p.sub.NextMsg(testkit.Timeout)
	must.Succeed(p.t, err)
	if len(m.Data) == 0 && len(m.Header) == 0 {
		return 0, false, nil
	}
	if err := rpc.Refusal(m); err != nil {
		return 0, false, err
	}
	if p.json {
		err = manifest.UnmarshalMessage(m.Data, into)
	} else {
		err = proto.Unmarshal(m.Data, into)
	}
	must.Succeed(p.t, err)
	return len(m.Data), true, nil
}

// A client that takes nothing of a reply to readlog, also to one that follows the log,
// has one window of it to come: 8 MiB as they are sent, and at most one commit more.
// Then the reply ends, says so, and says where to go on. So the NATS server keeps that
// much for it, and the graph service nothing.
func TestReadLogWindow(t *testing.T) {
	t.Parallel()
	keys := eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm)
	const commit = 512 << 10
	for name, message := range map[string]func(sequence uint64) []byte{
		"stored as they are sent": func(uint64) []byte { return make([]byte, commit) },
		"stored compressed": func(sequence uint64) []byte {
			b := eventlog.NewBuilder(eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{1}, Sequence: sequence, Epoch: 1, Time: 1, FirstRevision: 1, Key: 1})
			b.Begin(eventlog.Command{Actor: "a", Verb: "create", Note: strings.Repeat("x", commit)})
			b.End(eventlog.CommandRef{}, nil)
			sealed, err := keys.Seal(b.Bytes(), sequence)
			if err != nil || len(sealed) > commit/4 {
				t.Errorf("a commit is stored in %d bytes, %v", len(sealed), err)
			}
			return sealed
		},
	} {
		for _, json := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, JSON %t", name, json), func(t *testing.T) {
				t.Parallel()
				r := serveReaders(t, &madeLog{keys: keys, last: 1000, message: message}, nil)
				p := r.ask(bus.VerbReadLog, &coppicev1.ReadLogRequest{FromSequence: 1, Follow: true}, json)
				total, entries, from := 0, 0, uint64(1)
				var last *coppicev1.LogBatch
				for {
					var b coppicev1.LogBatch
					size, more, err := p.next(&b)
					must.Succeed(t, err)
					if !more {
						break
					}
					if b.GetFrom() != from {
						t.Fatalf("after sequence %d comes a batch from %d", from, b.GetFrom())
					}
					total, entries, from, last = total+size, entries+len(b.GetEntries()), b.GetNext(), &b
				}
				if total > streams.MaxLogReply+2*commit {
					t.Errorf("the reply has %d bytes", total)
				}
				if !last.GetEnd() || last.GetError() != nil || entries == 0 || last.GetNext() != uint64(entries)+1 {
					t.Errorf("after %d commits the reply ends with %+v", entries, last)
				}
			})
		}
	}
}

// A reader of the log hears of the graph service at each heartbeat: while nothing is
// appended, while it reads commits that are all left out, and while it waits for a
// place to read.
func TestReadLogHeartbeats(t *testing.T) {
	t.Parallel()
	keys := eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm)
	commit := func(sequence uint64) []byte {
		b := eventlog.NewBuilder(eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{1}, Sequence: sequence, Epoch: 1, Time: 1, FirstRevision: 1, Key: 1})
		sealed, err := keys.Seal(b.Bytes(), sequence)
		if err != nil {
			t.Error(err)
		}
		return sealed
	}
	beats := func(t *testing.T, p *reply) {
		t.Helper()
		for range 5 {
			var b coppicev1.LogBatch
			if _, more, err := p.next(&b); !more || err != nil || len(b.GetEntries()) > 0 {
				t.Fatalf("want a heartbeat, got %+v, %v", &b, err)
			}
		}
	}
	t.Run("nothing is appended", func(t *testing.T) {
		t.Parallel()
		r := serveReaders(t, &madeLog{keys: keys, last: 3, message: commit}, nil)
		beats(t, r.ask(bus.VerbReadLog, &coppicev1.ReadLogRequest{Follow: true}, false))
	})
	t.Run("nothing matches", func(t *testing.T) {
		t.Parallel()
		r := serveReaders(t, &madeLog{keys: keys, last: 1 << 40, message: commit}, nil)
		beats(t, r.ask(bus.VerbReadLog, &coppicev1.ReadLogRequest{FromSequence: 1, Name: "nobody"}, false))
	})
	t.Run("others read", func(t *testing.T) {
		t.Parallel()
		log := &madeLog{keys: keys, last: 3, message: commit, gate: make(chan struct{})}
		r := serveReaders(t, log, nil)
		for range serve.MaxLogReading {
			r.ask(bus.VerbReadLog, &coppicev1.ReadLogRequest{FromSequence: 1}, false)
		}
		testkit.WaitFor(t, r.ctx, "all places to be taken", func() bool { return log.reads.Load() == serve.MaxLogReading })
		beats(t, r.ask(bus.VerbReadLog, &coppicev1.ReadLogRequest{FromSequence: 1}, false))
		close(log.gate)
	})
}

// verifier is a verification that a test begins and ends.
type verifier struct {
	begun   chan struct{}
	results chan *coppicev1.VerifyReply
	ended   chan error
}

func newVerifier() *verifier {
	return &verifier{begun: make(chan struct{}, 10), results: make(chan *coppicev1.VerifyReply), ended: make(chan error, 10)}
}

func (v *verifier) verify(ctx context.Context, _ bool, progress func(sequence, last uint64)) (*coppicev1.VerifyReply, error) {
	progress(7, 9)
	v.begun <- struct{}{}
	select {
	case r := <-v.results:
		v.ended <- nil
		return r, nil
	case <-ctx.Done():
		v.ended <- ctx.Err()
		return nil, ctx.Err()
	}
}

// progresses waits for some heartbeats of a verification.
func (p *reply) progresses() {
	p.t.Helper()
	for n := 0; n < 5; {
		var b coppicev1.VerifyBatch
		if _, more, err := p.next(&b); !more || err != nil || b.GetResult() != nil || b.GetError() != nil {
			p.t.Fatalf("want a heartbeat, got %+v, %v", &b, err)
		}
		if b.GetSequence() == 7 && b.GetLast() == 9 {
			n++
		}
	}
}

// result waits for the result of a verification, after which the reply ends.
func (p *reply) result() *coppicev1.VerifyReply {
	p.t.Helper()
	var b coppicev1.VerifyBatch
	for b.GetResult() == nil {
		b.Reset()
		if _, more, err := p.next(&b); !more || err != nil || b.GetError() != nil {
			p.t.Fatalf("the reply ends without a result: %+v, %v", &b, err)
		}
	}
	if _, more, err := p.next(&coppicev1.VerifyBatch{}); more || err != nil {
		p.t.Errorf("after the result comes more: %t, %v", more, err)
	}
	return b.GetResult()
}

// A verification reports progress at each heartbeat, however long it takes, and then its
// result. It is canceled when its client is gone, and the next can begin.
func TestVerifyHeartbeats(t *testing.T) {
	t.Parallel()
	v := newVerifier()
	r := serveReaders(t, &madeLog{}, v.verify)
	first := r.ask(bus.VerbVerify, &coppicev1.VerifyRequest{}, false)
	first.progresses()
	testkit.Receive(t, r.ctx, "the verification", v.begun)
	must.Succeed(t, first.sub.Unsubscribe())
	if err := testkit.Receive(t, r.ctx, "the end of the verification whose client is gone", v.ended); err == nil {
		t.Error("the verification has succeeded")
	}
	second := r.ask(bus.VerbVerify, &coppicev1.VerifyRequest{}, false)
	second.progresses()
	v.results <- &coppicev1.VerifyReply{Sequence: 9, Objects: 3}
	if got := second.result(); got.GetObjects() != 3 {
		t.Errorf("the result is %v", got)
	}
}

// Clients that ask during a verification share it, also after the one that began it has
// left. More of them than an actor may have are refused.
func TestVerificationIsShared(t *testing.T) {
	t.Parallel()
	v := newVerifier()
	r := serveReaders(t, &madeLog{}, v.verify)
	ask := func() *reply { return r.ask(bus.VerbVerify, &coppicev1.VerifyRequest{}, false) }
	var clients []*reply
	for range serve.ActorVerifiers {
		p := ask()
		p.progresses()
		clients = append(clients, p)
	}
	var refusal *lifecycle.Error
	beyond := ask()
	if _, _, err := beyond.next(&coppicev1.VerifyBatch{}); !errors.As(err, &refusal) || refusal.Reason != api.ErrTooManyRequests {
		t.Errorf("a client beyond the limit: %v", err)
	}
	if _, more, err := beyond.next(&coppicev1.VerifyBatch{}); more || err != nil {
		t.Errorf("the refusal is not the end of the reply: %t, %v", more, err)
	}
	must.Succeed(t, clients[0].sub.Unsubscribe())
	clients[1].progresses()
	v.results <- &coppicev1.VerifyReply{Sequence: 9, Objects: 3}
	for i, p := range clients[1:] {
		if got := p.result(); got.GetObjects() != 3 {
			t.Errorf("client %d has the result %v", i+1, got)
		}
	}
	if n := len(v.begun); n != 1 {
		t.Errorf("%d verifications, want 1", n)
	}
	last := ask() // begins another
	last.progresses()
	v.results <- &coppicev1.VerifyReply{Sequence: 9, Objects: 4}
	if got := last.result(); got.GetObjects() != 4 {
		t.Errorf("after the end of the first verification the result is %v", got)
	}
}

// A reader that is gone makes room for another of its actor.
func TestReadersLeave(t *testing.T) {
	t.Parallel()
	r := serveReaders(t, &madeLog{last: 3, message: func(uint64) []byte { return nil }}, nil)
	follow := func() *reply { return r.ask(bus.VerbReadLog, &coppicev1.ReadLogRequest{Follow: true}, false) }
	var open []*reply
	for range serve.ActorLogReaders {
		p := follow()
		if _, more, err := p.next(&coppicev1.LogBatch{}); !more || err != nil {
			t.Fatalf("a reader is not served: %v", err)
		}
		open = append(open, p)
	}
	var refusal *lifecycle.Error
	if _, _, err := follow().next(&coppicev1.LogBatch{}); !errors.As(err, &refusal) || refusal.Reason != api.ErrTooManyRequests {
		t.Fatalf("one reader more than an actor may have: %v", err)
	}
	must.Succeed(t, open[0].sub.Unsubscribe())
	testkit.WaitFor(t, r.ctx, "room for another reader", func() bool {
		_, more, err := follow().next(&coppicev1.LogBatch{})
		return more && err == nil
	})
}

// A resolve of a processor at a revision that the replica does not reach is answered
// without objects, and soon: the worker that waits could do other work.
func TestResolveBeyondTheState(t *testing.T) {
	t.Parallel()
	r := serveReaders(t, &madeLog{}, nil)
	var reply coppicev1.ResolveReply
	err := rpc.Call(r.ctx, testkit.Conn(t, r.server, bus.RoleProcessor), bus.InternalSubject(bus.DefaultRealm, bus.OpResolve), nil,
		&coppicev1.ResolveRequest{MinRevision: 1 << 60, Uids: []byte(uid.New())}, &reply)
	if err != nil || reply.GetRevision() != 0 || len(reply.GetUids()) != 0 {
		t.Errorf("resolved to %v, %v", &reply, err)
	}
}
