package main

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A consumer that cannot be read again keeps its last state; one that was never read
// is unseen.
func TestConsumersThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: []bus.Role{{Name: "all", Publish: []string{">"}, Subscribe: []string{">"}}}})
	nc := testkit.Conn(t, server, "all")
	state := &client.ConsumerState{}
	subject := bus.RealmAPI(bus.DefaultRealm, "ana", bus.VerbListConsumers).Subject()
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
		data, err := proto.Marshal(&coppicev1.ListConsumersReply{Consumers: []*client.ConsumerState{state}})
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a := &app{realm: bus.DefaultRealm, dial: dial.Config{Timeout: time.Minute}, now: func() time.Time { return now }}
	c := (&session{app: a, c: client.New(nc, client.WithActor("ana"))}).consumers()
	late, cancel := context.WithCancel(ctx)
	cancel()
	sees := func(ctx context.Context, what string, want consumerState) {
		t.Helper()
		now = now.Add(2 * consumersFor)
		if got := c.finalizer(ctx, "example.com/f").state; got != want {
			t.Errorf("%s: consumer state %d, want %d", what, got, want)
		}
	}
	sees(late, "nobody could look", consumerUnseen)
	sees(ctx, "there is none", consumerNone)
	sees(late, "nobody could look again", consumerNone)
	state = &client.ConsumerState{Exists: true, Unacknowledged: 1}
	sees(ctx, "one has a call", consumerBusy)
	sees(late, "nobody could look once more", consumerBusy)
}
