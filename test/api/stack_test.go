// Package api_test shows the object API as clients see it, through everything:
// NATS, the graph service, processors, finalizers, the scanner.
package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	replicasets = client.Resource{Group: "apps", Plural: "replicasets"}
	pods        = client.Resource{Plural: "pods"}
)

// realm is a running realm with a client.
type realm struct {
	t   *testing.T
	ctx context.Context
	nc  *nats.Conn
	*client.Client
}

func start(t *testing.T) *realm {
	t.Helper()
	r, stop := startWith(t, allinone.Config{Dir: t.TempDir()})
	t.Cleanup(stop)
	return r
}

// startIn starts all services with a data directory. The test may call stop before its end.
func startIn(t *testing.T, dir string) (r *realm, stop func()) {
	t.Helper()
	return startWith(t, allinone.Config{Dir: dir})
}

func startWith(t *testing.T, c allinone.Config) (r *realm, stop func()) {
	t.Helper()
	ctx := testkit.Context(t)
	change := c.Graph
	c.Graph = func(g *graph.Config) {
		g.PlanTime = testkit.Timeout // the machine may be slow
		if change != nil {
			change(g)
		}
		if g.LeaseTTL == 0 {
			g.LeaseTTL = testkit.Timeout // a busy machine must not cost the writer its lease
		}
	}
	s, err := allinone.Start(context.WithoutCancel(ctx), c) // the services run until stop, which may be after ctx has ended
	if err != nil {
		t.Fatal(err)
	}
	stop = func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := testkit.Await(ctx, s); err != nil {
		stop()
		t.Fatal(err)
	}
	nc, err := s.Conn(bus.LocalUser)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	return &realm{t: t, ctx: ctx, nc: nc, Client: client.New(nc, client.WithActor("ana"))}, stop
}

// with returns the realm for a subtest.
func (r *realm) with(t *testing.T) *realm {
	t.Helper()
	sub := *r
	sub.t, sub.ctx = t, testkit.Context(t) // a parallel subtest may have to wait until it runs
	return &sub
}

// request sends JSON to the object API, until the reply does not ask to send it again, and returns that reply.
func (r *realm) request(verb, rest, body string, header ...string) *nats.Msg {
	r.t.Helper()
	if inner, ok := strings.CutPrefix(body, "{"); ok {
		body = `{"protocol":1,` + inner
		if inner == "}" {
			body = `{"protocol":1}`
		}
	}
	m := &nats.Msg{Subject: "coppice.default.api.ana." + verb + "." + rest, Data: []byte(body), Header: nats.Header{bus.HeaderContentType: {bus.ContentJSON}, bus.HeaderRequest: {verb}}}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	var reply *nats.Msg
	testkit.WaitFor(r.t, r.ctx, "the reply of "+m.Subject, func() bool {
		var err error
		if reply, err = r.nc.RequestMsg(m, testkit.Timeout); err != nil {
			r.t.Fatalf("%s: %v", m.Subject, err)
		}
		return reply.Header.Get(bus.HeaderRetryAfter) == "" // a busy service asks to repeat the request
	})
	return reply
}

// create creates an object with the SDK.
func (r *realm) create(resource client.Resource, namespace string, o *coppicev1.Object) *coppicev1.Object {
	r.t.Helper()
	result, err := r.Resource(resource, namespace).Create(r.ctx, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

func named(name string, owners ...*coppicev1.Object) *coppicev1.Object {
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}}
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true)))
	}
	return o
}

// gone waits until an object is removed.
func (r *realm) gone(resource client.Resource, namespace, name string) {
	r.t.Helper()
	testkit.WaitFor(r.t, r.ctx, fmt.Sprintf("the end of %s/%s", resource, name), func() bool {
		_, err := r.Resource(resource, namespace).Get(r.ctx, name)
		return errors.Is(err, client.ErrNotFound)
	})
}

// get returns an object that must exist.
func (r *realm) get(resource client.Resource, namespace, name string) *coppicev1.Object {
	r.t.Helper()
	o, err := r.Resource(resource, namespace).Get(r.ctx, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

func decode[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s is %q, without %q", what, text, p)
		}
	}
}
