package graph_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
)

const realm = bus.DefaultRealm

// service is a graph service that runs.
type service struct {
	*graph.Service
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// conns are the two connections of a graph service.
type conns struct{ log, answers *nats.Conn }

// lasting is a LeaseTTL with which a writer keeps its lease on a busy machine. Tests in which a
// process ends silently, and another one has to wait for that long, set a shorter one.
const lasting = 30 * time.Second

// serve runs a graph service on its connections until the test has ended.
func serve(t *testing.T, nc conns, dir string, change func(*graph.Config)) *service {
	t.Helper()
	c := graph.Config{Secrets: testkit.Secrets(), Conn: nc.log, Answers: nc.answers, Dir: dir, LeaseTTL: lasting}
	if change != nil {
		change(&c)
	}
	g, err := graph.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{Service: g, t: t, ended: make(chan struct{})}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(s.ended)
		s.err = g.Run(ctx)
	}()
	t.Cleanup(func() {
		s.cancel()
		<-s.ended
	})
	return s
}

// writing waits until the service is the writer.
func (s *service) writing(ctx context.Context) *service {
	s.t.Helper()
	testkit.WaitFor(s.t, ctx, "the service to be the writer", func() bool {
		select {
		case <-s.ended:
			s.t.Fatalf("the service has ended: %v", s.err)
		default:
		}
		return s.Writing()
	})
	return s
}

// stop ends the service, which must not have failed.
func (s *service) stop(ctx context.Context) {
	s.t.Helper()
	s.cancel()
	if err := s.wait(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits until the service has ended, and returns why.
func (s *service) wait(ctx context.Context) error {
	s.t.Helper()
	testkit.Receive(s.t, ctx, "the service's end", s.ended)
	return s.err
}

func graphConn(t *testing.T, server *natsd.Server) conns {
	t.Helper()
	return conns{testkit.Conn(t, server, bus.RoleGraph), testkit.Conn(t, server, bus.RoleAnswers)}
}

// dial connects a graph service over a proxy.
func dial(t *testing.T, server *natsd.Server, url string) conns {
	t.Helper()
	return conns{testkit.Dial(t, server, url, bus.RoleGraph), testkit.Dial(t, server, url, bus.RoleAnswers)}
}

// application is a client that works with objects.
func application(t *testing.T, server *natsd.Server) *client.Client {
	t.Helper()
	return client.New(testkit.Conn(t, server, bus.RoleApplication), client.WithActor(bus.RoleApplication), client.WithTimeout(time.Second))
}

var configMaps = client.Resource{Plural: "configmaps"}

func configMap(name string) *coppicev1.Object {
	return &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "a"}}
}

// create creates objects, and fails the test if it cannot.
func create(ctx context.Context, t *testing.T, c *client.Client, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := c.Resource(configMaps, "a").Create(ctx, configMap(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// has checks that just these objects are there.
func has(ctx context.Context, t *testing.T, c *client.Client, names ...string) {
	t.Helper()
	var got []string
	for o, err := range c.Resource(configMaps, "a").List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.GetMetadata().GetName())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("there are %v, want %v", got, names)
	}
}

// verify compares the state of a replica with its log.
func verify(ctx context.Context, t *testing.T, server *natsd.Server) *coppicev1.VerifyReply {
	t.Helper()
	c := client.New(testkit.Conn(t, server, bus.RoleOperator), client.WithActor(bus.RoleOperator), client.WithRealm(realm))
	reply, err := c.Operations().Verify(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// A NATS server that is unavailable for longer than the lease does not end the service,
// which continues when the server is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	proxy := testkit.NewProxy(t, server.URL())
	s := serve(t, dial(t, server, proxy.URL()), t.TempDir(), func(c *graph.Config) { c.LeaseTTL = time.Second }).writing(ctx)
	c := application(t, server)
	create(ctx, t, c, "before")
	proxy.Set(testkit.ToServer, testkit.Discard)
	proxy.Set(testkit.ToClient, testkit.Discard)
	proxy.Cut()
	testkit.WaitFor(t, ctx, "the writer to have lost its lease", func() bool { return !s.Writing() })
	proxy.Heal()
	s.writing(ctx)
	create(ctx, t, c, "behind")
	has(ctx, t, c, "before", "behind")
	s.stop(ctx)
}

// A service may start before JetStream answers.
func TestStartsBeforeJetStream(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	proxy := testkit.NewProxy(t, server.URL())
	nc := dial(t, server, proxy.URL())
	proxy.Set(testkit.ToServer, testkit.Discard)
	proxy.Cut()
	testkit.WaitFor(t, ctx, "the connection to break", func() bool { return !nc.log.IsConnected() && !nc.answers.IsConnected() })
	s := serve(t, nc, t.TempDir(), nil)
	if s.Ready() == nil || s.Writing() {
		t.Error("ready without NATS")
	}
	testkit.WaitFor(t, ctx, "the service to have tried", func() bool { return proxy.Lost(testkit.ToServer) > 0 })
	proxy.Heal()
	s.writing(ctx)
	testkit.WaitFor(t, ctx, "the service to be ready", func() bool { return s.Ready() == nil })
	s.stop(ctx)
}

// X15: a replica that rebuilds its state answers no reads until it has caught up. Otherwise
// it would report existing kinds and objects as missing.
func TestReplicaWaitsUntilItHasCaughtUp(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	first := serve(t, graphConn(t, server), t.TempDir(), nil).writing(ctx)
	c := client.New(testkit.Conn(t, server, bus.RoleApplication), client.WithActor(bus.RoleApplication), client.WithTimeout(testkit.Timeout))
	var batch []*coppicev1.Object
	const objects = 12000 // so many that catching up takes a while
	for i := range objects {
		batch = append(batch, configMap(fmt.Sprint("n-", i)))
		if len(batch) == 3000 {
			if _, err := c.Resource(configMaps, "a").CreateBatch(ctx, batch); err != nil {
				t.Fatal(err)
			}
			batch = nil
		}
	}
	first.stop(ctx)
	anew := serve(t, graphConn(t, server), t.TempDir(), nil)
	asks := testkit.Conn(t, server, bus.RoleApplication)
	at := bus.API{Realm: realm, Actor: bus.RoleApplication, Verb: bus.VerbResolve, Plural: "configmaps", Namespace: "a"}
	for {
		var reply coppicev1.ResolveObjectsReply
		err := rpc.Call(ctx, asks, at.Subject(), nil, &coppicev1.ResolveObjectsRequest{Names: []string{fmt.Sprint("n-", objects-1)}}, &reply)
		if err == nil {
			break
		}
		if !rpc.Retryable(err) {
			t.Fatalf("a replica that has not caught up answers %v", err)
		}
	}
	anew.stop(ctx)
}

// instanceFile has the id of a directory, which is its id as a member too.
const instanceFile = "instance"

// instance returns the id of a directory.
func instance(t *testing.T, dir string) string {
	t.Helper()
	id, err := os.ReadFile(filepath.Join(dir, instanceFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(id))
}

// Two processes, one with a copy of the other's directory, do not take the lease
// from each other: the second stands by, and reads are never stale.
func TestCopiedDirectory(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	dir, copied := t.TempDir(), t.TempDir()
	long := func(c *graph.Config) { c.LeaseTTL = testkit.Timeout / 2 } // the machine may be slow
	first := serve(t, graphConn(t, server), dir, long).writing(ctx)
	if err := os.WriteFile(filepath.Join(copied, instanceFile), []byte(instance(t, dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	second := serve(t, graphConn(t, server), copied, long)
	testkit.WaitFor(t, ctx, "the second service to stand by", func() bool { return second.Ready() == nil })
	c := application(t, server)
	create(ctx, t, c, "a")
	for last := uint64(0); last < 500; {
		o := configMap("a")
		o.Metadata.Labels = map[string]string{"n": fmt.Sprint(last)}
		written, err := c.Resource(configMaps, "a").Update(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		read, err := c.Resource(configMaps, "a").Get(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if last = written.GetMetadata().GetResourceVersion(); read.GetMetadata().GetResourceVersion() < last {
			t.Fatalf("read revision %d after revision %d was written", read.GetMetadata().GetResourceVersion(), last)
		}
		if !first.Writing() || second.Writing() {
			t.Fatalf("the first service writes: %t; the second: %t", first.Writing(), second.Writing())
		}
	}
	first.stop(ctx)
	second.writing(ctx)
	create(ctx, t, c, "b")
}
