package main

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// Whoever could not be looked at again is as it was seen last, and unseen if it
// never was.
func TestConsumersThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: []bus.Role{{Name: "all", Publish: []string{">"}, Subscribe: []string{">"}}}})
	js := testkit.JetStream(t, server, "all")
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: bus.FinalizeStream(bus.DefaultRealm), Subjects: []string{"calls"}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a := &app{realm: bus.DefaultRealm, dial: dial.Config{Timeout: time.Minute}, now: func() time.Time { return now }}
	c := &consumers{session: &session{app: a}, js: js, seen: map[string]consumer{}, at: map[string]time.Time{}}
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
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: bus.FinalizerDurable("example.com/f"), AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "calls", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(); err != nil {
		t.Fatal(err)
	}
	sees(ctx, "one has a call", consumerBusy)
	sees(late, "nobody could look once more", consumerBusy)
}
