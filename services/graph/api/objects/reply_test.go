package objects

import (
	"runtime"
	"testing"
	"weak"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// What the writer keeps of a request to answer it does not have the body in memory, which
// repetitions of a pending command would multiply.
func TestReplyDoesNotKeepTheBody(t *testing.T) {
	t.Parallel()
	type kept struct {
		body weak.Pointer[byte]
		done func(proto.Message, *lifecycle.Error)
	}
	received := make(chan kept, 1)
	ctx := testkit.Context(t)
	nc := serveRequests(t, nil, func(s *serve.Server, q *serve.Request) {
		ws := NewWriter(serve.NewWriter(s, nil, nil), nil, WriterConfig{})
		received <- kept{weak.Make(&q.Data()[0]), ws.answer(q.Replier, nil)}
	})
	m := request(make([]byte, 50<<10))
	m.Reply = nc.NewInbox()
	sub, err := nc.SubscribeSync(m.Reply)
	must.Succeed(t, err)
	must.Succeed(t, nc.PublishMsg(m))
	k := testkit.Receive(t, ctx, "the request", received)
	// The subscription may refer to the last message until it has another one.
	must.Succeed(t, nc.PublishMsg(&nats.Msg{Subject: m.Subject, Data: []byte("x"), Header: m.Header, Reply: m.Reply}))
	testkit.Receive(t, ctx, "another request", received)
	testkit.WaitFor(t, ctx, "the body to be freed", func() bool {
		runtime.GC()
		return k.body.Value() == nil
	})
	k.done(&coppicev1.ObjectsReply{}, nil)
	if _, err := sub.NextMsgWithContext(ctx); err != nil {
		t.Errorf("no reply: %v", err)
	}
}
