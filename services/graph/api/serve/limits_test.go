package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// A selector is refused before it is parsed if it is too long, and afterwards if it has
// too many requirements; the refusal names the limit.
func TestSelectorLimits(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat("a!=b,", n), ",") }
	for _, c := range []struct{ selector, says string }{
		{many(maxRequirements), ""},
		{many(maxRequirements + 1), "257 requirements; at most 256"},
		{"app in (" + strings.Repeat("x,", maxSelector) + "x)", "at most 65536"},
	} {
		labels, err := ParseLabels(c.selector)
		switch {
		case c.says == "" && (err != nil || len(labels) != maxRequirements):
			t.Errorf("%d bytes: %v", len(c.selector), err)
		case c.says != "" && (err == nil || err.Reason != api.ErrRequestEntityTooLarge || !strings.Contains(err.Message, c.says)):
			t.Errorf("%d bytes: %v, want a refusal that says %q", len(c.selector), err, c.says)
		}
	}
}

// A page ends with its context, and is not mistaken for a short one.
func TestPageEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	creations := make([]statetest.Decide, 1000)
	for i := range creations {
		creations[i] = r.Creation(fmt.Sprintf("configmaps/c-%04d", i), nil)
	}
	r.Must(creations...)
	ctx, cancel := context.WithCancel(t.Context())
	snap := r.Snapshot().Until(ctx)
	defer snap.Close()
	found := 0
	p := Page{Kind: r.Key("configmaps/any").Kind, Namespace: "default", MaxBytes: math.MaxInt}
	p.Each(snap, func(lifecycle.Object) {
		if found++; found == 300 {
			cancel()
		}
	})
	// The rest of the chunk, and a chunk that was already read ahead, may still be visited.
	if err := snap.Err(); !errors.Is(err, context.Canceled) || found > 768 {
		t.Errorf("%d objects were visited after the end: %v", found, err)
	}
	s := &Server{Config: Config{Realm: "default"}}
	if err := s.ErrUnreadable(fmt.Errorf("state: %w", context.DeadlineExceeded)); err.Reason != api.ErrTimeout {
		t.Errorf("a read that takes too long is refused with %v", err)
	}
}

// Reads that hold objects wait for their turn, and are refused as retryable before the
// client gives up; one actor does not keep another from its turn.
func TestReadsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	places := admission.New(2, 1)
	release := make(chan struct{})
	begun := make(chan struct{}, 10)
	b := serve(t, func(s *Server, q *Request) {
		s.Within(places, q, func(context.Context) (proto.Message, *lifecycle.Error) {
			begun <- struct{}{}
			<-release
			return &coppicev1.ListReply{}, nil
		})
	})
	inbox := b.client.NewInbox()
	sub, err := b.client.SubscribeSync(inbox)
	must.Succeed(t, err)
	read := func() {
		t.Helper()
		must.Succeed(t, b.client.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}}}))
	}
	read()
	testkit.Receive(t, b.ctx, "a read to begin", begun)
	refused(t, b.request("", nil), bus.ContentProtobuf, "429", api.ErrTooManyRequests, "too many reads")
	if places.Try("another") != nil {
		t.Error("one actor has taken the places of all")
	}
	places.Release("another")
	read()
	release <- struct{}{}
	answered := 0
	testkit.WaitFor(t, b.ctx, "the next to begin", func() bool {
		if m, err := sub.NextMsg(time.Millisecond); err == nil {
			if m.Header.Get(micro.ErrorCodeHeader) != "" {
				read() // on a busy machine, the one before has waited for too long
			} else {
				answered++
			}
		}
		return len(begun) > 0
	})
	close(release)
	for range 2 - answered {
		if _, err := sub.NextMsg(testkit.Timeout); err != nil {
			t.Fatal(err)
		}
	}
}
