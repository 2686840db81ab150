package api

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A request expires as long after it was received as its client waits for the reply.
func TestTimeoutHeader(t *testing.T) {
	t.Parallel()
	expires := make(chan time.Duration, 1)
	b := serve(t, func(_ *server, q *request) {
		in := time.Duration(-1)
		if !q.expires.IsZero() {
			in = q.expires.Sub(q.received)
		}
		expires <- in
		q.answer(&coppicev1.ObjectsReply{}, nil)
	})
	for text, want := range map[string]time.Duration{"": -1, "1500": 1500 * time.Millisecond, "0": 0, "18446744073709551615": -1} {
		m := &nats.Msg{Subject: subject, Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}}}
		if text != "" {
			m.Header.Set(bus.HeaderTimeout, text)
		}
		if _, err := b.client.RequestMsgWithContext(b.ctx, m); err != nil {
			t.Fatal(err)
		}
		if got := testkit.Receive(t, b.ctx, "the request", expires); got != want {
			t.Errorf("%q: it expires in %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"5s", "-1", "1.5"} {
		m := &nats.Msg{Subject: subject, Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}, bus.HeaderTimeout: {text}}}
		reply, err := b.client.RequestMsgWithContext(b.ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := rpc.Refusal(reply); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// What the writer keeps of a request to answer it does not have the body in memory, which
// repetitions of a pending command would multiply.
func TestReplyDoesNotKeepTheBody(t *testing.T) {
	t.Parallel()
	type kept struct {
		body weak.Pointer[byte]
		done func(proto.Message, *lifecycle.Error)
	}
	received := make(chan kept, 1)
	b := serve(t, func(s *server, q *request) {
		ws := newObjectsWriter(newServedWriter(s, nil, nil), nil, WriterConfig{})
		received <- kept{weak.Make(&q.Data()[0]), ws.answer(q.replier)}
	})
	m := &nats.Msg{Subject: subject, Data: make([]byte, 50<<10), Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}}, Reply: b.client.NewInbox()}
	sub, err := b.client.SubscribeSync(m.Reply)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	k := testkit.Receive(t, b.ctx, "the request", received)
	// The subscription may refer to the last message until it has another one.
	if err := b.client.PublishMsg(&nats.Msg{Subject: subject, Data: []byte("x"), Header: m.Header, Reply: m.Reply}); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, b.ctx, "another request", received)
	testkit.WaitFor(t, b.ctx, "the body to be freed", func() bool {
		runtime.GC()
		return k.body.Value() == nil
	})
	k.done(&coppicev1.ObjectsReply{}, nil)
	if _, err := sub.NextMsgWithContext(b.ctx); err != nil {
		t.Errorf("no reply: %v", err)
	}
}
