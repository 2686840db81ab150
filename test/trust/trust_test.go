// Package trust_test attacks Coppice with the credentials of its users: each role sends
// every request that it may, with reply subjects that it may not publish to.
package trust_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

func TestMain(m *testing.M) {
	testkit.ManyAtOnce()
	testkit.Main(m)
}

var secrets = client.Resource{Plural: "secrets"}

// realm is a running realm with objects that an attacker would delete. Its client is an operator.
type realm struct {
	*stack.Stack
	// connect connects as an attacker: the server may refuse subjects.
	connect func(role string, opts ...nats.Option) (*nats.Conn, error)

	maintained *maintained
}

func start(t *testing.T) *realm {
	t.Helper()
	return startWith(t, allinone.Config{OneAccount: true})
}

func startWith(t *testing.T, c allinone.Config) *realm {
	t.Helper()
	c.Port = -1
	r := &realm{Stack: stack.Start(t, c)}
	server := r.Services.Server()
	r.connect = func(role string, opts ...nats.Option) (*nats.Conn, error) {
		return nats.Connect(server.URL(), append(append(server.Options(role), nats.Timeout(testkit.Timeout)), opts...)...)
	}
	r.populate()
	return r
}

// populate creates the objects that an attacker would delete.
func (r *realm) populate() {
	r.TB.Helper()
	r.Client = client.New(r.conn(bus.RoleOperator), client.WithActor(bus.RoleOperator))
	for i := range 10 {
		o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprint("s", i)}}
		r.Create(secrets, "prod", o)
	}
}

// conn connects with a role.
func (r *realm) conn(role string) *nats.Conn {
	r.TB.Helper()
	nc, err := r.connect(role, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must.Succeed(r.TB, err)
	r.TB.Cleanup(nc.Close)
	return nc
}

// publish publishes to a subject of a role, with any reply subject.
func (r *realm) publish(nc *nats.Conn, subject, reply string, header nats.Header, data []byte) {
	r.TB.Helper()
	must.Succeed(r.TB, nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: header, Data: data}))
}

// unharmed checks that all objects are there, after the replies to all earlier requests
// of the connection: endpoints take requests in order, also those that a reply would be.
func (r *realm) unharmed(fences ...func()) {
	r.TB.Helper()
	for range 3 {
		for _, f := range fences {
			f()
		}
		if _, err := r.Resource(secrets, "elsewhere").DeleteEverything(r.Ctx); err != nil {
			r.TB.Fatal(err)
		}
	}
	n := 0
	for _, err := range r.Resource(secrets, "prod").List(r.Ctx) {
		must.Succeed(r.TB, err)
		n++
	}
	if n != 10 {
		r.TB.Errorf("%d of 10 objects are left", n)
	}
}

func subject(actor, verb, plural, namespace string) string {
	return bus.API{Realm: bus.DefaultRealm, Actor: actor, Verb: verb, Plural: plural, Namespace: namespace}.Subject()
}

// everything is the request that a reply must not act as.
var everything = subject(bus.RoleOperator, bus.VerbDeleteCollection, "secrets", "prod")

// A reply of the graph service to a reader does not act as a request of an operator.
func TestAnswerIsNoRequest(t *testing.T) {
	t.Parallel()
	r := start(t)
	nc := r.conn(bus.RoleReader)
	reader := client.New(nc, client.WithActor(bus.RoleReader))
	list := subject(bus.RoleReader, bus.VerbList, "secrets", "nowhere")
	data, err := rpc.Encode(&coppicev1.ListRequest{})
	must.Succeed(t, err)
	fence := func() {
		if _, err := reader.Resource(secrets, "nowhere").ListPage(r.Ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		r.publish(nc, list, everything, nil, nil)
		r.publish(nc, list, everything, rpc.Header(list, nil), data)
		r.publish(nc, list, everything, nats.Header{bus.HeaderRequest: {bus.VerbDeleteCollection}, bus.HeaderContentType: {bus.ContentJSON}}, []byte(`{}`))
	}
	r.unharmed(fence)

	// It is not stored in the log, and reaches inboxes only.
	js := r.JetStream(bus.RoleGraph)
	log, err := js.Stream(r.Ctx, bus.LogStream(bus.DefaultRealm))
	must.Succeed(t, err)
	before := log.CachedInfo().State
	r.publish(nc, list, bus.LogSubject(bus.DefaultRealm), rpc.Header(list, nil), data)
	r.publish(nc, list, "$JS.API.STREAM.PURGE."+bus.WorkStream(bus.DefaultRealm), rpc.Header(list, nil), data)
	for range 3 {
		fence()
	}
	after, err := log.Info(r.Ctx)
	must.Succeed(t, err)
	if after.State.LastSeq != before.LastSeq {
		t.Errorf("the log has %d messages, and had %d", after.State.LastSeq, before.LastSeq)
	}
}

// A reply of the NATS server does not either.
func TestServerAnswerIsNoRequest(t *testing.T) {
	t.Parallel()
	r := start(t)
	log := bus.LogStream(bus.DefaultRealm)
	work := bus.WorkStream(bus.DefaultRealm)
	for role, requests := range map[string]map[string]string{
		bus.RoleReader: {
			"$JS.API.DIRECT.GET." + log:     `{"seq":1000000}`, // an empty answer
			"$JS.API.STREAM.MSG.GET." + log: `{"seq":1}`,
			"$JS.API.STREAM.INFO." + log:    ``,
		},
		bus.RoleProcessor: {
			"$JS.API.CONSUMER.MSG.NEXT." + work + "." + bus.DurableProcessors: `{"batch":1,"no_wait":true}`, // an empty answer
		},
		bus.RoleFinalizers: {
			"$JS.API.CONSUMER.MSG.NEXT." + work + "." + bus.DurableOrphan: `{"batch":1,"no_wait":true}`,
		},
	} {
		nc := r.conn(role)
		for subject, body := range requests {
			r.publish(nc, subject, everything, nil, []byte(body))
		}
		must.Succeed(t, nc.FlushWithContext(r.Ctx))
	}
	r.unharmed()
}
