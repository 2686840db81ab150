package rpc_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var subject = bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleOperator, Verb: bus.VerbVerify}.Subject()

// called is a realm with the connection of a client. The test plays the graph service.
type called struct {
	*testkit.Realm
	asks, graph *nats.Conn
}

func start(t *testing.T) *called {
	t.Helper()
	r := testkit.NewRealmOn(t, testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), MaxPayload: 1 << 16}))
	return &called{r, r.Conn(bus.RoleOperator), r.Conn(bus.RoleAnswers)}
}

func (b *called) call(ctx context.Context, request *coppicev1.ListRequest) (*coppicev1.ListReply, error) {
	reply := &coppicev1.ListReply{}
	return reply, rpc.Call(ctx, b.asks, subject, nil, request, reply)
}

// is checks the reason of an error, and whether it may be tried again.
func is(t *testing.T, err error, reason lifecycle.Reason, retryable bool, says string) {
	t.Helper()
	if !errors.Is(err, reason) || rpc.Retryable(err) != retryable || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, retryable: %t; want %s with %q, retryable: %t", err, rpc.Retryable(err), reason, says, retryable)
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	b := start(t)
	testkit.Answer(t, b.graph, subject, &coppicev1.ListRequest{}, func(q *coppicev1.ListRequest) (*coppicev1.ListReply, *lifecycle.Error) {
		if q.GetContinue() == "refuse" {
			return nil, &lifecycle.Error{
				Reason: api.ErrInvalid, Message: "no", Resource: "pods", Name: "a", Index: 3,
				Causes: []lifecycle.Cause{{Field: "metadata.name", Message: "too long"}},
			}
		}
		return &coppicev1.ListReply{Continue: q.GetContinue() + "!"}, nil
	})
	if reply, err := b.call(b.Ctx, &coppicev1.ListRequest{Continue: "a"}); err != nil || reply.GetContinue() != "a!" {
		t.Errorf("got %v, %v", reply, err)
	}
	_, err := b.call(b.Ctx, &coppicev1.ListRequest{Continue: "refuse"})
	is(t, err, api.ErrInvalid, false, "no")
	var e *lifecycle.Error
	if !errors.As(err, &e) || e.Name != "a" || e.Index != 3 || len(e.Causes) != 1 {
		t.Errorf("the details are lost: %+v", e)
	}
	_, err = b.call(b.Ctx, &coppicev1.ListRequest{Continue: strings.Repeat("x", 1<<16)})
	is(t, err, api.ErrRequestEntityTooLarge, false, "takes messages of up to 65536")
}

// A request without a responder was not carried out; one without a reply in time may have
// been.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	b := start(t)
	_, err := b.call(b.Ctx, &coppicev1.ListRequest{})
	is(t, err, api.ErrServiceUnavailable, true, `no graph service answers for realm "default"`)
	sub, err := b.graph.SubscribeSync(subject)
	if err == nil {
		err = b.graph.Flush()
	}
	must.Succeed(t, err)
	brief, cancel := context.WithTimeout(b.Ctx, 50*time.Millisecond)
	defer cancel()
	_, err = b.call(brief, &coppicev1.ListRequest{})
	is(t, err, api.ErrTimeout, true, "not known whether")
	_ = sub.Unsubscribe()
}

// If the body has no details, the error is read from the headers.
func TestRefusal(t *testing.T) {
	t.Parallel()
	header := func(pairs ...string) *nats.Msg {
		m := &nats.Msg{Header: nats.Header{}}
		for i := 0; i < len(pairs); i += 2 {
			m.Header.Set(pairs[i], pairs[i+1])
		}
		return m
	}
	if err := rpc.Refusal(header(bus.HeaderContentType, bus.ContentProtobuf)); err != nil {
		t.Errorf("a reply: %v", err)
	}
	is(t, rpc.Refusal(header(micro.ErrorCodeHeader, "500", micro.ErrorHeader, "oops")), api.ErrInternalError, false, "oops")
	full := rpc.Refusal(header(micro.ErrorCodeHeader, "409", micro.ErrorHeader, "later", bus.HeaderReason, "Conflict", bus.HeaderRetryAfter, "1500"))
	is(t, full, api.ErrConflict, true, "later")
	var e *lifecycle.Error
	if !errors.As(full, &e) || e.RetryAfter != 1500*time.Millisecond {
		t.Errorf("retry after %v", e.RetryAfter)
	}
}

// A retryable error is retried until the request succeeds, fails with another error, or
// the context ends.
func TestRetry(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	later := &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "later"}
	never := &lifecycle.Error{Reason: api.ErrInvalid, Message: "never"}
	for name, c := range map[string]struct {
		outcomes []error
		want     error
	}{
		"at once":  {[]error{nil}, nil},
		"later":    {[]error{later, later, nil}, nil},
		"never":    {[]error{later, never, nil}, never},
		"not ours": {[]error{context.Canceled, nil}, context.Canceled},
	} {
		n := 0
		err := rpc.Retry(ctx, time.Second, func(context.Context) error {
			n++
			return c.outcomes[n-1]
		})
		if !errors.Is(err, c.want) || c.want == nil && n != len(c.outcomes) {
			t.Errorf("%s: %v after %d attempts", name, err, n)
		}
	}
	ending, cancel := context.WithCancel(ctx)
	defer cancel()
	n := 0
	err := rpc.Retry(ending, time.Second, func(context.Context) error {
		if n++; n == 2 {
			cancel()
		}
		return later
	})
	if !errors.Is(err, api.ErrServiceUnavailable) || !errors.Is(err, context.Canceled) || n < 2 {
		t.Errorf("without end: %v after %d attempts", err, n)
	}
}

// Answers reports whether a subject has a responder, however long the responder takes.
func TestAnswers(t *testing.T) {
	t.Parallel()
	b := start(t)
	if rpc.Answers(b.Ctx, b.asks, subject) {
		t.Error("Answers is true without a responder")
	}
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	asked := make(chan *nats.Msg, 1)
	_, err := b.graph.Subscribe(subject, func(m *nats.Msg) {
		asked <- m
		cancel() // the responder takes longer than the caller waits
	})
	if err == nil {
		err = b.graph.Flush()
	}
	must.Succeed(t, err)
	if !rpc.Answers(ctx, b.asks, subject) {
		t.Error("Answers is false, although a responder is subscribed")
	}
	if m := testkit.Receive(t, b.Ctx, "the request", asked); len(m.Data) != 0 {
		t.Errorf("it was asked by %v", m)
	}
	b.asks.Close()
	if rpc.Answers(b.Ctx, b.asks, subject) {
		t.Error("Answers is true without a connection")
	}
}

// A request that the server denies fails at once. Other requests on the connection keep
// waiting.
func TestDenied(t *testing.T) {
	t.Parallel()
	b := start(t)
	var reported atomic.Int32
	b.asks.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) { reported.Add(1) })
	release := make(chan struct{})
	testkit.Answer(t, b.graph, subject, &coppicev1.ListRequest{}, func(*coppicev1.ListRequest) (*coppicev1.ListReply, *lifecycle.Error) {
		<-release
		return &coppicev1.ListReply{}, nil
	})
	allowed := make(chan error, 1)
	go func() {
		_, err := b.call(b.Ctx, &coppicev1.ListRequest{})
		allowed <- err
	}()
	forbidden := bus.API{Realm: bus.DefaultRealm, Actor: "other", Verb: bus.VerbList, Plural: "pods", Namespace: "shop"}.Subject()
	for range 3 {
		err := rpc.Call(b.Ctx, b.asks, forbidden, nil, &coppicev1.ListRequest{}, &coppicev1.ListReply{})
		is(t, err, api.ErrForbidden, false, `may not list pods as actor "other" in realm "default"`)
	}
	close(release)
	if err := testkit.Receive(t, b.Ctx, "the reply", allowed); err != nil {
		t.Error(err)
	}
	if reported.Load() == 0 {
		t.Error("the connection's own error handler was not called")
	}
}
