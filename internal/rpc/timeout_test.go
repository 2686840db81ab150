package rpc_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Each attempt of a command says for how long its reply is waited for.
func TestAttemptsSayTheirTimeout(t *testing.T) {
	t.Parallel()
	b := start(t)
	timeouts := make(chan string, 16)
	sub, err := b.graph.Subscribe(subject, func(m *nats.Msg) { timeouts <- m.Header.Get(bus.HeaderTimeout) })
	must.Succeed(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	must.Succeed(t, b.graph.Flush())
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	ended := make(chan error, 1)
	var commands rpc.Commands
	const timeout = 100 * time.Millisecond
	go func() {
		ended <- commands.Retry(ctx, timeout, func(ctx context.Context, header nats.Header) error {
			data, err := rpc.Encode(&coppicev1.ListRequest{})
			if err != nil {
				return err
			}
			return rpc.Send(ctx, b.asks, subject, header, data, &coppicev1.ListReply{})
		})
	}()
	for range 2 {
		text := testkit.Receive(t, b.Ctx, "an attempt", timeouts)
		if ms, err := strconv.Atoi(text); err != nil || ms < 1 || ms > int(timeout.Milliseconds()) {
			t.Errorf("the attempt says %q", text)
		}
	}
	cancel()
	if err := testkit.Receive(t, b.Ctx, "the end", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
