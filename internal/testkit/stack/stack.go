// Package stack runs all services in the process of a test, and has a client for it.
//
// It is built on the services and on the SDK, and thus the one internal package that imports them.
// Tests of one service use [testkit.Realm].
package stack

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// Stack is all services. They run until the test has ended, or Stop is called.
type Stack struct {
	// Client is the local user's; on a server with passwords, the operator's.
	*client.Client
	TB       testing.TB
	Ctx      context.Context
	Services *allinone.Stack
}

// Start starts all services, and waits until they are ready. opts are those of the client. c.Dir is a temporary
// directory by default. A lease lasts as long as a wait of a test by default, so that a
// busy machine does not cost the writer its lease.
func Start(tb testing.TB, c allinone.Config, opts ...client.Option) *Stack {
	tb.Helper()
	s := &Stack{TB: tb, Ctx: testkit.Context(tb)}
	if c.Dir == "" {
		c.Dir = tb.TempDir()
	}
	change := c.Graph
	c.Graph = func(g *graph.Config) {
		g.LeaseTTL = testkit.Timeout
		if change != nil {
			change(g)
		}
	}
	var err error
	// Not within s.Ctx: functions of tb.Cleanup may use the services.
	if s.Services, err = allinone.Start(context.WithoutCancel(s.Ctx), c); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	must.Succeed(tb, testkit.Await(s.Ctx, s.Services))
	if c.Auth {
		s.Client = s.As(bus.RoleOperator, opts...)
	} else {
		s.Client = client.New(s.Connect(bus.LocalUser), opts...)
	}
	return s
}

// Stop ends the services, and reports an error with which one of them has ended before.
func (s *Stack) Stop() {
	s.TB.Helper()
	if err := s.Services.Stop(); err != nil {
		s.TB.Error(err)
	}
}

// With returns the stack for a subtest.
func (s *Stack) With(tb testing.TB) *Stack {
	tb.Helper()
	sub := *s
	sub.TB, sub.Ctx = tb, testkit.Context(tb)
	return &sub
}

// Connect connects with a role, within this process.
func (s *Stack) Connect(role string) *nats.Conn {
	s.TB.Helper()
	nc, err := s.Services.Conn(role)
	must.Succeed(s.TB, err)
	return nc
}

// As returns a client with a role, and as the actor of this role.
func (s *Stack) As(role string, opts ...client.Option) *client.Client {
	s.TB.Helper()
	return client.New(s.Connect(role), append([]client.Option{client.WithActor(role)}, opts...)...)
}

// JetStream connects with a role, and returns its JetStream.
func (s *Stack) JetStream(role string) jetstream.JetStream {
	s.TB.Helper()
	js, err := jetstream.New(s.Connect(role))
	must.Succeed(s.TB, err)
	return js
}

// WaitFor waits until a condition holds.
func (s *Stack) WaitFor(what string, holds func() bool) {
	s.TB.Helper()
	testkit.WaitFor(s.TB, s.Ctx, what, holds)
}

// Create creates an object.
func (s *Stack) Create(resource client.Resource, namespace string, o *coppicev1.Object) *coppicev1.Object {
	s.TB.Helper()
	created, err := s.Resource(resource, namespace).Create(s.Ctx, o)
	must.Succeed(s.TB, err)
	return created
}

// Get returns an object that must exist.
func (s *Stack) Get(resource client.Resource, namespace, name string) *coppicev1.Object {
	s.TB.Helper()
	o, err := s.Resource(resource, namespace).Get(s.Ctx, name)
	must.Succeed(s.TB, err)
	return o
}

// Delete deletes an object.
func (s *Stack) Delete(resource client.Resource, namespace, name string, opts ...client.DeleteOption) *client.DeleteResult {
	s.TB.Helper()
	result, err := s.Resource(resource, namespace).Delete(s.Ctx, name, opts...)
	must.Succeed(s.TB, err)
	return result
}

// Gone waits until an object is removed.
func (s *Stack) Gone(resource client.Resource, namespace, name string) {
	s.TB.Helper()
	s.WaitFor(fmt.Sprintf("the end of %s/%s", resource, name), func() bool {
		_, err := s.Resource(resource, namespace).Get(s.Ctx, name)
		return errors.Is(err, client.ErrNotFound)
	})
}

// Named returns an object with a name, which blocks the foreground deletion of its owners.
func Named(name string, owners ...*coppicev1.Object) *coppicev1.Object {
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}}
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true)))
	}
	return o
}

// Finalized returns an object with a name and finalizers.
func Finalized(name string, finalizers ...string) *coppicev1.Object {
	return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Finalizers: finalizers}}
}
