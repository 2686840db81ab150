// Package fake has a [client.Interface] for a realm in memory, for tests of programs that
// use package client. It needs no server, and decides every request by the rules that
// the real realm has: validation, preconditions, finalizers, owner references, grace
// periods, imports.
//
//	c := fake.New()
//	runController(c)
//
// # The collector
//
// The collector and the built-in finalizers run in every call, until nothing is left for
// them to do: a Get after a Delete finds its final result. External finalizers and agents
// wait for the test, which removes the finalizer, or runs [Client.RunFinalizer] and [Client.RunAgent]. The
// order of work is always the same.
//
// # Time
//
// The realm has the time of [time.Now]. [Client.Advance] moves it forward, for what takes
// minutes, such as the owner grace period. What becomes due as time passes happens in the
// next call.
//
// # What it does not have
//
// There is no event log, and there are no warnings, consumers and parked work. The calls of
// [Client.Log], and those of [Client.Operations] except its Brakes, ReleaseBrake and Finalizers, fail with
// [client.ErrMethodNotAllowed]. So does [Client.RunExpiry]: the fake evaluates no expiry policies. It does not
// check permissions. If the realm setting unreachableCycles is collect, a cycle is collected
// in the call that makes it unreachable; with report the fake reports nothing. The fake is
// for some ten thousand objects, not for millions. coppicetest.Start runs a real realm in a
// test.
package fake

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Client is a client.Interface for a realm in memory. Create one with New. It is safe for
// concurrent use.
type Client struct {
	mu       sync.Mutex
	realm    *memrealm.Realm
	ahead    time.Duration // of time.Now
	newest   uint64        // see Revision
	history  []change      // all changes of objects
	notified int           // the length of history when changed was last closed
	changed  chan struct{} // closed after the next change of an object
	calls    map[callKey]*call
	leases   map[string]chan struct{} // with an element while RunLeader leads
}

var _ client.Interface = (*Client)(nil)

// New returns a client for a new realm, which has the built-in kinds and no other objects.
func New() *Client {
	c := &Client{realm: memrealm.NewAt(lifecycle.TimeOf(time.Now())), changed: make(chan struct{}), calls: map[callKey]*call{}, leases: map[string]chan struct{}{}}
	c.realm.OnChange, c.realm.Actor = c.record, c.Actor()
	return c
}

// Advance moves the realm's time forward, and does what is due then.
func (c *Client) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	c.begin()
}

// begin brings the realm to the present, as the first step of every call. c.mu is locked.
func (c *Client) begin() {
	c.realm.Clock = max(c.realm.Clock, lifecycle.TimeOf(time.Now().Add(c.ahead)))
	c.settle()
}

// settle runs the collector until nothing is left for it to do, and wakes calls that wait
// for changes. c.mu is locked.
func (c *Client) settle() {
	c.realm.SettleActive()
	if len(c.history) > c.notified {
		c.notified = len(c.history)
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

// rules returns the context of a command in a realm.
func rules(r *memrealm.Realm) *lifecycle.Context {
	ctx := r.Context()
	ctx.NewUID = uid.New
	ctx.MaxObject = maxObject
	ctx.RemovesFinalizers = false // see removeKept
	return ctx
}

// maxObject is the size of the largest object in bytes, as for a NATS server whose
// largest message is 1 MiB.
const maxObject = 512 << 10

// Realm returns "default".
func (c *Client) Realm() string { return "default" }

// Actor returns "client".
func (c *Client) Actor() string { return "client" }

// Revision returns the newest revision that a reply to this client has named.
func (c *Client) Revision() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// Resource returns a client for the objects of a resource in a namespace.
func (c *Client) Resource(r client.Resource, namespace string) client.ResourceClient {
	return &resourceClient{c: c, resource: r, namespace: namespace}
}

// Kinds lists the kinds that are registered in the realm.
func (c *Client) Kinds(ctx context.Context, opts ...client.CallOption) (*client.Kinds, error) {
	return client.ListKinds(ctx, c, opts...)
}

// Warnings returns none: the fake has no warnings.
func (c *Client) Warnings(ctx context.Context, _ string, _ ...client.WarningsOption) ([]client.Warning, error) {
	return nil, ctx.Err()
}

// FollowWarnings waits until ctx ends: the fake has no warnings.
func (c *Client) FollowWarnings(ctx context.Context, _ ...client.FollowWarningsOption) iter.Seq2[client.Warning, error] {
	return func(func(client.Warning, error) bool) { <-ctx.Done() }
}

// resourceClient is the client.ResourceClient of a Client.
type resourceClient struct {
	c         *Client
	resource  client.Resource
	namespace string
}

// key returns the kind and the namespace of a request to a realm.
func (r *resourceClient) key(realm *memrealm.Realm) (lifecycle.Key, error) {
	if r.resource.Plural == "" {
		return lifecycle.Key{}, lifecycle.ErrBadRequest("the request names no type; write the plural of a kind, such as pods")
	}
	if err := (bus.API{Group: r.resource.Group, Plural: r.resource.Plural, Namespace: r.namespace}).CheckTarget(); err != nil {
		return lifecycle.Key{}, lifecycle.ErrBadRequest("%v", err)
	}
	kind := realm.Kinds().Resource(r.resource.String())
	if kind == nil {
		return lifecycle.Key{}, api.UnknownKind(r.resource.String())
	}
	return lifecycle.Key{Kind: kind, Namespace: r.namespace}, nil
}

// checkNames checks the names of objects in a request.
func checkNames(names ...string) error {
	for i, name := range names {
		if name == "" {
			return lifecycle.ErrBadRequest("names[%d] is empty; write the name of an object", i)
		}
	}
	return nil
}

// read calls f with the realm as it is now, and fills into if it is not nil.
func (c *Client) read(ctx context.Context, into *client.Reply, f func(*memrealm.Realm) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	if err := f(c.realm); err != nil {
		return err
	}
	c.newest = max(c.newest, c.realm.Revision)
	if into != nil {
		*into = client.Reply{Revision: c.realm.Revision}
	}
	return nil
}

// collect returns the options that a call was given.
func collect[S any, O any](opts []O, apply func(O, *S)) S {
	all := new(S)
	for _, o := range opts {
		if any(o) != nil {
			apply(o, all)
		}
	}
	return *all
}
