package serve

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A request expires as long after it was received as its client waits for the reply.
func TestTimeoutHeader(t *testing.T) {
	t.Parallel()
	expires := make(chan time.Duration, 1)
	b := serve(t, func(_ *Server, q *Request) {
		in := time.Duration(-1)
		if !q.Expires.IsZero() {
			in = q.Expires.Sub(q.Received)
		}
		expires <- in
		q.Answer(&coppicev1.ObjectsReply{}, nil)
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
		must.Succeed(t, err)
		if err := rpc.Refusal(reply); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
