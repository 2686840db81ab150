package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/election"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/tracing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Client sends requests to one realm as one actor. It is safe for concurrent use.
// Create one for a connection and an actor, and share it: concurrent calls of
// Create on the same Client are sent in batches.
type Client struct {
	nc           *nats.Conn
	realm        string
	actor        string
	timeout      time.Duration
	retryTimeout time.Duration
	onError      func(error)
	onLeftOut    func(verb string, n uint64)
	batches      *batches
	newest       *atomic.Uint64 // see Revision
	commands     *rpc.Commands
	past         *Past        // nil for the present
	tracer       trace.Tracer // nil for none
}

// Option is an option of New.
type Option func(*Client)

// WithRealm sets the realm; "default" by default.
func WithRealm(realm string) Option { return func(c *Client) { c.realm = realm } }

// WithActor sets the actor, which the log records with every command; "client" by
// default. If the NATS server has permissions, it must be the actor of the NATS user.
func WithActor(actor string) Option { return func(c *Client) { c.actor = actor } }

// WithTimeout sets the time that one attempt of a request waits for its reply. Without it,
// or if it is not positive, that is 5 s. The client tries again until the context ends. Plan, PlanDeletions
// and ReleaseBrake wait at least 30 s; their context can end earlier.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRetryTimeout sets the maximum time for all attempts of a request; it is at least 30 s for
// Plan, PlanDeletions and ReleaseBrake. A call whose reply is a stream, such as LogClient.Read,
// fails when no message has come for that time; Watch differs, see there. By default the client
// tries again until the context ends.
func WithRetryTimeout(d time.Duration) Option { return func(c *Client) { c.retryTimeout = d } }

// WithoutBatching sends each Create as its own request. By default, concurrent calls of
// Create for the same resource and namespace share requests, which raises throughput by
// half and saves a third of the CPU time (docs/performance.md).
func WithoutBatching() Option { return func(c *Client) { c.batches = nil } }

// WithOnError sets a function that is called with each error after which the client
// tries a request again. It must not block, and must be safe for concurrent use.
func WithOnError(f func(error)) Option { return func(c *Client) { c.onError = f } }

// WithOnLeftOut sets a function that is called when a reply lacks objects, events, warnings or parked work that the
// users file does not let the actor see: with the verb of the request, and their number; zero if that is not known.
// It must not block, and must be safe for concurrent use.
func WithOnLeftOut(f func(verb string, n uint64)) Option { return func(c *Client) { c.onLeftOut = f } }

// WithTracerProvider records a span of OpenTelemetry for each request, and for each call of RunFinalizer, RunAgent and
// RunExpiry that carries a trace. Without it, requests still carry the trace of their context, so that spans of the
// services belong to it. Calls whose reply is a stream, such as Watch, are not traced.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *Client) {
		if p != nil {
			c.tracer = tracing.Tracer(p)
		}
	}
}

// New returns a client that uses a connection. The caller closes the connection.
func New(nc *nats.Conn, opts ...Option) *Client {
	c := &Client{
		batches: newBatches(), commands: &rpc.Commands{}, newest: &atomic.Uint64{}, nc: nc,
		realm: bus.DefaultRealm, actor: "client",
	}
	for _, o := range opts {
		o(c)
	}
	if c.timeout <= 0 {
		c.timeout = 5 * time.Second
	}
	return c
}

// Realm returns the realm that the client uses.
func (c *Client) Realm() string { return c.realm }

// Actor returns the actor that the log records for the client's commands.
func (c *Client) Actor() string { return c.actor }

// Conn returns the connection.
func (c *Client) Conn() *nats.Conn { return c.nc }

// Resource returns a client for the objects of a resource in a namespace. The
// namespace is empty for cluster-scoped resources; List, ListPage, Watch and
// Resolve then use all namespaces.
func (c *Client) Resource(r Resource, namespace string) ResourceClient {
	return &resourceClient{c: c, resource: r, namespace: namespace}
}

// Log returns a client for the realm's event log.
func (c *Client) Log() LogClient { return &logClient{c} }

// Operations returns a client for consumers, parked work and verification.
func (c *Client) Operations() OperationsClient { return &operationsClient{c} }

// encode encodes a request.
func encode(request proto.Message) ([]byte, error) {
	data, err := rpc.Encode(request)
	if err != nil {
		return nil, &Error{Reason: ErrBadRequest, Message: "the request cannot be encoded: " + err.Error()}
	}
	return data, nil
}

// call sends a request, and again until it is answered or ctx ends. The request may be carried out
// more than once: it reads, or its repetition is harmless.
func (c *Client) call(ctx context.Context, a bus.API, request, reply proto.Message) error {
	data, err := encode(request)
	if err != nil {
		return err
	}
	return c.send(ctx, a, data, reply, nil)
}

// command is call for a command: all attempts have the same id, so that it is carried out at most once.
func (c *Client) command(ctx context.Context, a bus.API, request, reply proto.Message) error {
	data, err := encode(request)
	if err != nil {
		return err
	}
	return c.sendCommand(ctx, a, data, reply, nil)
}

// send is call for a request that is encoded. It calls failed, if it is not nil, with the error of
// each failed attempt.
func (c *Client) send(ctx context.Context, a bus.API, request []byte, reply proto.Message, failed func(error)) error {
	return c.try(ctx, a, request, reply, failed, func(ctx context.Context, attempt attempt) error {
		// If ctx expires during an attempt, the last refusal is a better error than a timeout.
		var refusal error
		err := rpc.Retry(ctx, c.timeout, func(each context.Context) error {
			err := attempt(each, nil)
			if err != nil && (ctx.Err() == nil || !errors.Is(err, ErrTimeout)) {
				refusal = err
			}
			return err
		})
		if refusal != nil && ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
			return rpc.Ended(ctx, refusal)
		}
		return err
	})
}

// sendCommand is command for a request that is encoded, with failed as in send.
func (c *Client) sendCommand(ctx context.Context, a bus.API, request []byte, reply proto.Message, failed func(error)) error {
	return c.try(ctx, a, request, reply, failed, func(ctx context.Context, attempt attempt) error {
		return c.commands.Retry(ctx, c.timeout, attempt)
	})
}

// attempt sends a request once, with a header.
type attempt func(context.Context, nats.Header) error

// try checks the subject of a request, and has retry attempt it until the client stops trying.
func (c *Client) try(
	ctx context.Context, a bus.API, request []byte, reply proto.Message, failed func(error), retry func(context.Context, attempt) error,
) (err error) {
	if c.past != nil {
		return c.errPast(a.Verb)
	}
	ctx, span := c.startSpan(ctx, a)
	defer func() { tracing.End(span, err) }()
	err = errors.Join(bus.CheckActor(a.Actor), a.CheckTarget())
	if a.Realm != bus.SystemRealm {
		err = errors.Join(bus.CheckRealm(a.Realm), err)
	}
	if err != nil {
		return &Error{Reason: ErrBadRequest, Message: err.Error()}
	}
	ctx, cancel := c.withRetryTimeout(ctx)
	defer cancel()
	err = retry(ctx, func(ctx context.Context, header nats.Header) error {
		if err := election.Check(ctx); err != nil {
			return fmt.Errorf("%s: the request was not sent: %w", a.Verb, err)
		}
		err := rpc.Send(ctx, c.nc, a.Subject(), header, request, reply)
		if err != nil && failed != nil {
			failed(err)
		}
		if err != nil && rpc.Retryable(err) {
			c.report(err)
		}
		return err
	})
	if err == nil {
		c.saw(reply)
		c.lacks(a.Verb, reply)
	}
	return err
}

// lacks calls the function of WithOnLeftOut if a reply lacks something that the actor may not see.
func (c *Client) lacks(verb string, reply any) {
	if c.onLeftOut == nil {
		return
	}
	if past, ok := reply.(*coppicev1.ReadPastReply); ok {
		reply = past.GetResolved()
	}
	var n uint64
	switch of := reply.(type) {
	case interface{ GetLeftOut() uint64 }:
		n = of.GetLeftOut()
	case interface{ GetLeftOut() uint32 }:
		n = uint64(of.GetLeftOut())
	case interface{ GetPartial() bool }: // ListFinalizersReply, GraphBatch
		if of.GetPartial() {
			c.onLeftOut(verb, 0)
		}
	}
	if n > 0 {
		c.onLeftOut(verb, n)
	}
}

// report calls the functions of WithOnError and OnError.
func (c *Client) report(err error, also ...func(error)) {
	for _, f := range append(also, c.onError) {
		if f != nil {
			f(err)
		}
	}
}

// withRetryTimeout returns a context that ends when the client stops trying a request.
func (c *Client) withRetryTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.retryTimeout > 0 {
		return context.WithTimeout(ctx, c.retryTimeout)
	}
	return ctx, func() {}
}
