package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	graphservice "github.com/coppice-gc/coppice/services/graph"
)

var configMaps = client.Resource{Plural: "configmaps"}

// stack has all services in this process, and a connection of the local user.
type stack struct {
	*allinone.Stack
	t   *testing.T
	ctx context.Context
	nc  *nats.Conn
}

func start(t *testing.T) *stack {
	t.Helper()
	return startWith(t, nil)
}

// startWith is start with another configuration of the graph service.
func startWith(t *testing.T, change func(*graphservice.Config)) *stack {
	t.Helper()
	s := &stack{t: t, ctx: testkit.Context(t)}
	var err error
	graph := func(c *graphservice.Config) {
		c.LeaseTTL = testkit.Timeout // a busy machine does not cost the writer its lease
		if change != nil {
			change(c)
		}
	}
	if s.Stack, err = allinone.Start(s.ctx, allinone.Config{Dir: t.TempDir(), Graph: graph}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Await(s.ctx); err != nil {
		t.Fatal(err)
	}
	s.nc = s.conn(bus.LocalUser)
	return s
}

func (s *stack) conn(role string) *nats.Conn {
	s.t.Helper()
	nc, err := s.Conn(role)
	if err != nil {
		s.t.Fatal(err)
	}
	return nc
}

// create creates an object with these finalizers.
func (s *stack) create(name string, finalizers ...string) *coppicev1.Object {
	s.t.Helper()
	r, err := client.New(s.nc).Resource(configMaps, "shop").Create(s.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Finalizers: finalizers}})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// delete deletes an object.
func (s *stack) delete(name string) {
	s.t.Helper()
	if _, err := client.New(s.nc).Resource(configMaps, "shop").Delete(s.ctx, name); err != nil {
		s.t.Fatal(err)
	}
}

// gone waits until an object is gone.
func (s *stack) gone(name string) {
	s.t.Helper()
	testkit.WaitFor(s.t, s.ctx, "the end of "+name, func() bool {
		_, err := client.New(s.nc).Resource(configMaps, "shop").Get(s.ctx, name)
		return errors.Is(err, client.ErrNotFound)
	})
}
