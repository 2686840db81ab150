package streams_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	graphapi "github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/api/streams"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// A watch for which there is no place is refused before anything is begun for it, and
// the place of one that has ended is free again.
func TestWatchWithoutAPlace(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	n := testkit.NATS(t)
	places := admission.New(1, 1)
	begun := make(chan struct{}, 1000)
	end := make(chan struct{})
	serving := testkit.Conn(t, n, bus.RoleAnswers)
	s, err := graphapi.ServeReplica(serve.Config{
		Realm: bus.DefaultRealm, Conn: serving, State: statetest.New(t).State, Log: slog.New(slog.DiscardHandler),
	}, graphapi.ReplicaConfig{Streams: streams.Config{
		Heartbeat: time.Hour,
		Admit: func(actor string) (func(), *lifecycle.Error) {
			if places.Try(actor) != nil {
				return nil, &lifecycle.Error{Reason: api.ErrTooManyRequests, Message: "no place", RetryAfter: time.Second}
			}
			return func() { places.Release(actor) }, nil
		},
		Watch: func(ctx context.Context, _ watch.Target) error {
			begun <- struct{}{}
			select {
			case <-end:
				return errors.New("the end")
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Stop() })
	if err := serving.FlushWithContext(ctx); err != nil { // the server has the subscriptions then
		t.Fatal(err)
	}
	nc := testkit.Conn(t, n, bus.RoleReader)
	at := bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleReader, Verb: bus.VerbWatch, Plural: "pods"}.Subject()
	data, err := rpc.Encode(&coppicev1.WatchRequest{})
	must.Succeed(t, err)
	open := func() {
		t.Helper()
		must.Succeed(t, nc.PublishMsg(&nats.Msg{Subject: at, Reply: nc.NewInbox(), Header: rpc.Header(at, nil), Data: data}))
		testkit.Receive(t, ctx, "a watch to begin", begun)
	}
	open()
	for range 100 {
		reply, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: at, Header: rpc.Header(at, nil), Data: data})
		must.Succeed(t, err)
		var refusal *lifecycle.Error
		if err := rpc.Refusal(reply); !errors.As(err, &refusal) || refusal.Reason != api.ErrTooManyRequests || refusal.Message != "no place" {
			t.Fatalf("the reply is %v, want a refusal", err)
		}
	}
	if len(begun) != 0 {
		t.Errorf("%d watches were begun without a place", len(begun))
	}
	close(end)
	testkit.WaitFor(t, ctx, "the place to be free", func() bool {
		used, _ := places.Used("")
		return used == 0
	})
	open()
}
