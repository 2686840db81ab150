package testkit

import (
	"strconv"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Answer answers the requests on a subject in the place of the graph service,
// one after the other, until the test has ended or stop is called, which waits for
// the answer to the one before. request is reused for each.
func Answer[Q, R proto.Message](tb testing.TB, nc *nats.Conn, subject string, request Q, answer func(Q) (R, *lifecycle.Error)) (stop func()) {
	tb.Helper()
	var mu sync.Mutex // while a request is answered
	stopped := false
	sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		if err := proto.Unmarshal(m.Data, request); err != nil {
			tb.Errorf("%s: %v", m.Subject, err)
			return
		}
		reply, refusal := answer(request)
		out := &nats.Msg{Header: nats.Header{bus.HeaderContentType: []string{bus.ContentProtobuf}}}
		var body proto.Message = reply
		if refusal != nil {
			out.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(int(refusal.Reason.Code())))
			body = refusal.Status()
		}
		var err error
		if out.Data, err = proto.Marshal(body); err != nil {
			tb.Error(err)
			return
		}
		_ = m.RespondMsg(out) // the requester may be gone
	})
	if err == nil {
		err = nc.Flush()
	}
	must.Succeed(tb, err)
	unsubscribe := func() { _ = sub.Unsubscribe() }
	tb.Cleanup(unsubscribe) // an answer may wait for the end of the test
	return func() {
		unsubscribe()
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}
