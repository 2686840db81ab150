package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Error is a refusal: it names the object, the rule and what to do. The
// request has changed nothing.
type Error = lifecycle.Error

// Reason is the machine-readable reason of an Error, and a target for errors.Is.
type Reason = lifecycle.Reason

// The reasons. docs/errors.md explains each.
const (
	BadRequest       = lifecycle.ReasonBadRequest
	Forbidden        = lifecycle.ReasonForbidden
	NotFound         = lifecycle.ReasonNotFound
	AlreadyExists    = lifecycle.ReasonAlreadyExists
	Conflict         = lifecycle.ReasonConflict
	Expired          = lifecycle.ReasonExpired
	TooLarge         = lifecycle.ReasonTooLarge
	Invalid          = lifecycle.ReasonInvalid
	UnknownKind      = lifecycle.ReasonUnknownKind
	TooManyRequests  = lifecycle.ReasonOverloaded
	InternalError    = lifecycle.ReasonInternal
	NotReady         = lifecycle.ReasonNotReady
	Timeout          = lifecycle.ReasonTimeout
	MethodNotAllowed = lifecycle.ReasonMethodNotAllowed
	OutcomeUnknown   = lifecycle.ReasonOutcomeUnknown
)

// Client speaks to one realm as one actor.
type Client struct {
	nc       *nats.Conn
	realm    string
	actor    string
	timeout  time.Duration
	patience time.Duration
	apart    bool
	queues   *queues
	newest   *atomic.Uint64 // see Revision
	commands *rpc.Commands
}

// Option is an option of New.
type Option func(*Client)

// WithRealm names the realm; bus.DefaultRealm, "default", without it.
func WithRealm(realm string) Option { return func(c *Client) { c.realm = realm } }

// WithActor names the actor, as which the log records what is done. Where NATS
// has permissions it must be the actor of the user.
func WithActor(actor string) Option { return func(c *Client) { c.actor = actor } }

// WithTimeout says how long one attempt of a request waits for its answer; 5 s
// without it. How long a request is tried is for the context to say.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithPatience says how long a request is tried in all; without it, as long as
// its context lasts.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// WithApart has each object that is created by itself go in a request of its own.
// Without it those that many callers create at once go together, as far as they are of
// the same resource and namespace: half as many again a second, for two thirds of the CPU.
func WithApart() Option { return func(c *Client) { c.apart = true } }

// New returns a client on a connection, which stays the caller's.
func New(nc *nats.Conn, opts ...Option) *Client {
	c := &Client{queues: newQueues(), commands: &rpc.Commands{}, newest: &atomic.Uint64{}, nc: nc, realm: bus.DefaultRealm, actor: "client", timeout: 5 * time.Second}
	for _, o := range opts {
		o(c)
	}
	return c
}

// Realm is the realm that the client speaks to.
func (c *Client) Realm() string { return c.realm }

// Actor is the actor as which it does.
func (c *Client) Actor() string { return c.actor }

// Conn is the connection.
func (c *Client) Conn() *nats.Conn { return c.nc }

// Resource names a resource of the object API.
type Resource struct {
	Group  string // empty for the core group
	Plural string
}

// String is the resource as "pods" or "replicasets.apps".
func (r Resource) String() string { return lifecycle.ResourceName(r.Group, r.Plural) }

// ParseResource reads a resource as String writes it.
func ParseResource(s string) Resource {
	for i := range len(s) {
		if s[i] == '.' {
			return Resource{Plural: s[:i], Group: s[i+1:]}
		}
	}
	return Resource{Plural: s}
}

// encode encodes a request.
func encode(request proto.Message) ([]byte, error) {
	data, err := rpc.Encode(request)
	if err != nil {
		return nil, &Error{Reason: BadRequest, Message: "the request cannot be encoded: " + err.Error()}
	}
	return data, nil
}

// call sends a request until it is answered or ctx ends. A command carries an
// id, so that it is carried out at most once.
func (c *Client) call(ctx context.Context, a bus.API, command bool, request, reply proto.Message) error {
	data, err := encode(request)
	if err != nil {
		return err
	}
	return c.send(ctx, a, command, data, reply, nil)
}

// send is call for a request that is encoded. failed, if there is one, is told of
// attempts that fail.
func (c *Client) send(ctx context.Context, a bus.API, command bool, request []byte, reply proto.Message, failed func(error)) error {
	if err := errors.Join(bus.CheckRealm(a.Realm), bus.CheckActor(a.Actor)); err != nil {
		return &Error{Reason: BadRequest, Message: err.Error()}
	}
	ctx, cancel := c.patiently(ctx)
	defer cancel()
	attempt := func(ctx context.Context, header nats.Header) error {
		err := rpc.Send(ctx, c.nc, a.Subject(), header, request, reply)
		if err != nil && failed != nil {
			failed(err)
		}
		return err
	}
	retry := func() error {
		return rpc.Retry(ctx, c.timeout, func(ctx context.Context) error { return attempt(ctx, nil) })
	}
	if command {
		retry = func() error { return c.commands.Retry(ctx, c.timeout, attempt) }
	}
	err := retry()
	if err == nil {
		c.saw(reply)
		return nil
	}
	return err
}

// patiently is a context that lasts as long as a request is tried.
func (c *Client) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.patience > 0 {
		return context.WithTimeout(ctx, c.patience)
	}
	return ctx, func() {}
}

// Objects are the objects of a resource in a namespace.
type Objects struct {
	c         *Client
	resource  Resource
	namespace string

	uninitialized bool
}

// Objects returns the objects of a resource in a namespace; of one that is
// cluster-scoped, or in all namespaces where that makes sense, with an empty
// namespace.
func (c *Client) Objects(r Resource, namespace string) *Objects {
	return &Objects{c: c, resource: r, namespace: namespace}
}

// IncludeUninitialized returns the same objects, and with them those that wait
// for their initializers or whose initialization has failed: Get, List, Page and
// Watch pass these over otherwise.
func (o *Objects) IncludeUninitialized() *Objects {
	all := *o
	all.uninitialized = true
	return &all
}

func (o *Objects) api(verb string) bus.API {
	return bus.API{
		Realm: o.c.realm, Actor: o.c.actor, Verb: verb,
		Group: o.resource.Group, Plural: o.resource.Plural, Namespace: o.namespace,
	}
}

// Result is what became of one object of a batch.
type Result struct {
	// Code is 200 or 201 when it was done, 202 when a deletion was accepted
	// and the object is still there.
	Code     int
	Object   *coppicev1.Object
	Err      error
	Warnings []string
	// Revision is the realm's revision after the request.
	Revision uint64
}

func results(reply *coppicev1.ObjectsReply) []Result {
	list := make([]Result, len(reply.GetResults()))
	for i, r := range reply.GetResults() {
		list[i] = Result{Code: int(r.GetCode()), Object: r.GetObject(), Warnings: r.GetWarnings(), Revision: reply.GetRevision()}
		if r.GetError() != nil {
			list[i].Err = lifecycle.ErrorOf(r.GetError())
		}
	}
	return list
}

// one is the result of a request with one object.
func one(reply *coppicev1.ObjectsReply, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	list := results(reply)
	if len(list) != 1 {
		return Result{}, &Error{Reason: InternalError, Message: fmt.Sprintf("%d results for one object", len(list))}
	}
	return list[0], list[0].Err
}
