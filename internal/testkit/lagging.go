package testkit

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Lag has direct gets of a stream answered as by a server whose copy of the stream ends behind
// a message, 0 for an empty copy. The leader of the stream still has all messages. js has every
// permission. Streams that were opened before still use direct gets.
func Lag(t *testing.T, js jetstream.JetStream, name string, last uint64) {
	t.Helper()
	ctx := Context(t)
	stream, err := js.Stream(ctx, name)
	must.Succeed(t, err)
	c := stream.CachedInfo().Config
	c.AllowDirect = false // no server answers direct gets
	if stream, err = js.UpdateStream(ctx, c); err != nil {
		t.Fatal(err)
	}
	answer := func(m *nats.Msg) {
		var r struct{ Seq, Batch uint64 }
		_ = json.Unmarshal(m.Data, &r) // a request by subject has no body
		say := func(h nats.Header, data []byte) {
			if err := m.RespondMsg(&nats.Msg{Header: h, Data: data}); err != nil {
				t.Error(err)
			}
		}
		if r.Seq == 0 || r.Seq > last {
			say(nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}, nil)
			return
		}
		for at := r.Seq; at <= min(last, r.Seq+max(r.Batch, 1)-1); at++ {
			stored, err := stream.GetMsg(ctx, at)
			if err != nil {
				t.Error(err)
				return
			}
			say(nats.Header{
				jetstream.StreamHeader: {name}, jetstream.SubjectHeader: {stored.Subject}, jetstream.SequenceHeader: {fmt.Sprint(at)},
				jetstream.TimeStampHeaer: {"2026-01-01T00:00:00Z"}, "Nats-Num-Pending": {fmt.Sprint(last - at)},
			}, stored.Data)
		}
		if r.Batch > 0 {
			say(nats.Header{"Status": {"204"}, "Description": {"EOB"}, "Nats-Num-Pending": {fmt.Sprint(last - min(last, r.Seq+r.Batch-1))}}, nil)
		}
	}
	for _, subject := range []string{"$JS.API.DIRECT.GET." + name, "$JS.API.DIRECT.GET." + name + ".>"} {
		if _, err := js.Conn().Subscribe(subject, answer); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, js.Conn().Flush())
}
