package streams

import (
	"context"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// A request to create a consumer waits for others, which may wait for a connection that
// cannot write, only until its context ends: it occupies a place of the process meanwhile.
func TestConsumersEndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	s := New(serve.NewReplica(&serve.Server{Config: serve.Config{Realm: bus.DefaultRealm, Log: slog.New(slog.DiscardHandler)}}, nil, nil), Config{
		JS: testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph),
	})
	s.consuming <- struct{}{}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	c := bus.FinalizerConsumer(bus.DefaultRealm, "example.com/volume")
	for what, call := range map[string]func() bool{
		"creates": func() bool {
			_, _, _, err := s.createConsumer(ended, &c)
			return err != nil
		},
		"creates again": func() bool { return s.renewConsumer(ended, nil, &jetstream.ConsumerInfo{}, c) != nil },
	} {
		failed := make(chan bool, 1)
		go func() { failed <- call() }()
		if !testkit.Receive(t, ctx, "the end of a call that "+what+" a consumer", failed) {
			t.Errorf("a call that %s a consumer did not wait for the other", what)
		}
	}
}
