package graph_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
)

const realm = bus.DefaultRealm

// installation is a NATS server, on which the test runs graph services.
type installation struct {
	*testkit.Realm
	app func() *client.Client
}

func newInstallation(tb testing.TB) *installation {
	tb.Helper()
	return installationIn(tb, tb.TempDir())
}

// installationIn has the server in a directory.
func installationIn(tb testing.TB, dir string) *installation {
	tb.Helper()
	return installationOn(tb, natsd.Config{Dir: dir})
}

func installationOn(tb testing.TB, c natsd.Config) *installation {
	tb.Helper()
	n := &installation{Realm: testkit.NewRealmOn(tb, testkit.StartNATS(tb, c))}
	n.app = sync.OnceValue(n.application)
	return n
}

// shutdown ends the server.
func (n *installation) shutdown() {
	n.Helper()
	must.Succeed(n, n.Server.Shutdown())
}

// service is a graph service that runs.
type service struct {
	*graph.Service
	*testkit.Running
	tb testing.TB
}

// conns are the two connections of a graph service.
type conns struct{ log, answers *nats.Conn }

// lasting is a LeaseTTL with which a writer keeps its lease on a busy machine. Tests in which a
// process ends silently, and another one has to wait for that long, set a shorter one.
const lasting = 30 * time.Second

// serve runs a graph service in a directory until the test has ended.
func (n *installation) serve(dir string, change func(*graph.Config)) *service {
	n.Helper()
	return serve(n, n.connect(), dir, change)
}

// serve runs a graph service on its connections until the test has ended.
func serve(tb testing.TB, nc conns, dir string, change func(*graph.Config)) *service {
	tb.Helper()
	c := graph.Config{Secrets: testkit.Secrets(), Conn: nc.log, Answers: nc.answers, Dir: dir, LeaseTTL: lasting}
	if change != nil {
		change(&c)
	}
	g, err := graph.New(c)
	must.Succeed(tb, err)
	return &service{g, testkit.Run(tb, g.Run).MayFail(), tb}
}

// writing waits until the service is the writer.
func (s *service) writing() *service {
	s.tb.Helper()
	testkit.WaitFor(s.tb, testkit.Context(s.tb), "the service to be the writer", func() bool {
		select {
		case <-s.Ended():
			s.tb.Fatalf("the service has ended: %v", s.Err())
		default:
		}
		return s.Writing()
	})
	return s
}

func (n *installation) connect() conns {
	n.Helper()
	return conns{n.Conn(bus.RoleGraph), n.Conn(bus.RoleAnswers)}
}

// dial connects a graph service over a proxy.
func (n *installation) dial(url string) conns {
	n.Helper()
	return conns{testkit.Dial(n, n.Server, url, bus.RoleGraph), testkit.Dial(n, n.Server, url, bus.RoleAnswers)}
}

// as returns a client with a role.
func (n *installation) as(role string, opts ...client.Option) *client.Client {
	n.Helper()
	return client.New(n.Conn(role), append([]client.Option{client.WithActor(role)}, opts...)...)
}

// application is a client that works with objects.
func (n *installation) application() *client.Client {
	n.Helper()
	return n.as(bus.RoleApplication, client.WithTimeout(time.Second))
}

// create creates objects.
func (n *installation) create(names ...string) {
	n.Helper()
	create(n.Ctx, n, n.app(), names...)
}

// has checks that just these objects are there.
func (n *installation) has(names ...string) {
	n.Helper()
	has(n.Ctx, n, n.app(), names...)
}

// verify compares the state of a replica with its log.
func (n *installation) verify() *coppicev1.VerifyReply {
	n.Helper()
	reply, err := n.as(bus.RoleOperator).Operations().Verify(n.Ctx)
	must.Succeed(n, err)
	return reply
}

// warning waits for a warning for which is returns true, and returns its message.
func (n *installation) warning(what string, is func(client.Warning) bool) (message string) {
	n.Helper()
	operator := n.as(bus.RoleOperator)
	n.WaitFor(what, func() bool {
		warnings, err := operator.Warnings(n.Ctx, "")
		must.Succeed(n, err)
		i := slices.IndexFunc(warnings, is)
		if i >= 0 {
			message = warnings[i].Message
		}
		return i >= 0
	})
	return message
}

// warned waits for a warning with a reason whose message has all parts, and returns it.
func (n *installation) warned(reason string, parts ...string) (message string) {
	n.Helper()
	return n.warning(fmt.Sprintf("a warning %s that has %q", reason, parts), func(w client.Warning) bool {
		return w.Reason == reason && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(w.Message, part) })
	})
}

var configMaps = client.Resource{Plural: "configmaps"}

func configMap(name string) *coppicev1.Object {
	return &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "a"}}
}

// create creates objects.
func create(ctx context.Context, tb testing.TB, c *client.Client, names ...string) {
	tb.Helper()
	for _, n := range names {
		put(ctx, tb, c, configMap(n))
	}
}

// put creates an object.
func put(ctx context.Context, tb testing.TB, c *client.Client, o *coppicev1.Object) *coppicev1.Object {
	tb.Helper()
	created, err := c.Resource(configMaps, "a").Create(ctx, o)
	must.Succeed(tb, err)
	return created
}

// remove deletes an object.
func remove(ctx context.Context, tb testing.TB, c *client.Client, name string) {
	tb.Helper()
	if _, err := c.Resource(configMaps, "a").Delete(ctx, name); err != nil {
		tb.Fatal(err)
	}
}

// has checks that just these objects are there.
func has(ctx context.Context, tb testing.TB, c *client.Client, names ...string) {
	tb.Helper()
	var got []string
	for o, err := range c.Resource(configMaps, "a").List(ctx) {
		must.Succeed(tb, err)
		got = append(got, o.GetMetadata().GetName())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		tb.Errorf("there are %v, want %v", got, names)
	}
}

// A NATS server that is unavailable for longer than the lease does not end the service,
// which continues when the server is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	proxy := testkit.NewProxy(t, server.Server.URL())
	s := serve(t, server.dial(proxy.URL()), t.TempDir(), func(c *graph.Config) { c.LeaseTTL = time.Second }).writing()
	server.create("before")
	proxy.Set(testkit.ToServer, testkit.Discard)
	proxy.Set(testkit.ToClient, testkit.Discard)
	proxy.Cut()
	server.WaitFor("the writer to have lost its lease", func() bool { return !s.Writing() })
	proxy.Heal()
	s.writing()
	server.create("behind")
	server.has("before", "behind")
	s.Stop()
}

// A service may start before JetStream answers.
func TestStartsBeforeJetStream(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	proxy := testkit.NewProxy(t, server.Server.URL())
	nc := server.dial(proxy.URL())
	proxy.Set(testkit.ToServer, testkit.Discard)
	proxy.Cut()
	server.WaitFor("the connection to break", func() bool { return !nc.log.IsConnected() && !nc.answers.IsConnected() })
	s := serve(t, nc, t.TempDir(), nil)
	if s.Ready() == nil || s.Writing() {
		t.Error("ready without NATS")
	}
	server.WaitFor("the service to have tried", func() bool { return proxy.Lost(testkit.ToServer) > 0 })
	proxy.Heal()
	s.writing()
	server.WaitFor("the service to be ready", func() bool { return s.Ready() == nil })
	s.Stop()
}

// X15: a replica that rebuilds its state answers no reads until it has caught up. Otherwise
// it would report existing kinds and objects as missing.
func TestReplicaWaitsUntilItHasCaughtUp(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	first := server.serve(t.TempDir(), nil).writing()
	c := server.as(bus.RoleApplication, client.WithTimeout(testkit.Timeout))
	var batch []*coppicev1.Object
	const objects = 12000 // so many that catching up takes a while
	for i := range objects {
		batch = append(batch, configMap(fmt.Sprint("n-", i)))
		if len(batch) == 3000 {
			if _, err := c.Resource(configMaps, "a").CreateBatch(server.Ctx, batch); err != nil {
				t.Fatal(err)
			}
			batch = nil
		}
	}
	first.Stop()
	fresh := server.serve(t.TempDir(), nil)
	asks := server.Conn(bus.RoleApplication)
	at := bus.API{Realm: realm, Actor: bus.RoleApplication, Verb: bus.VerbResolve, Plural: "configmaps", Namespace: "a"}
	for {
		var reply coppicev1.ResolveObjectsReply
		err := rpc.Call(server.Ctx, asks, at.Subject(), nil, &coppicev1.ResolveObjectsRequest{Names: []string{fmt.Sprint("n-", objects-1)}}, &reply)
		if err == nil {
			break
		}
		if !rpc.Retryable(err) {
			t.Fatalf("a replica that has not caught up answers %v", err)
		}
	}
	fresh.Stop()
}

// instanceFile has the id of a directory, which is its id as a member too.
const instanceFile = "instance"

// instance returns the id of a directory.
func instance(tb testing.TB, dir string) string {
	tb.Helper()
	id, err := os.ReadFile(filepath.Join(dir, instanceFile))
	must.Succeed(tb, err)
	return strings.TrimSpace(string(id))
}

// Two processes, one with a copy of the other's directory, do not take the lease
// from each other: the second stands by, and reads are never stale.
func TestCopiedDirectory(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	dir, copied := t.TempDir(), t.TempDir()
	long := func(c *graph.Config) { c.LeaseTTL = testkit.Timeout / 2 } // the machine may be slow
	first := server.serve(dir, long).writing()
	must.Succeed(t, os.WriteFile(filepath.Join(copied, instanceFile), []byte(instance(t, dir)), 0o600))
	second := server.serve(copied, long)
	server.WaitFor("the second service to stand by", func() bool { return second.Ready() == nil })
	c := server.application()
	server.create("a")
	for last := uint64(0); last < 500; {
		o := configMap("a")
		o.Metadata.Labels = map[string]string{"n": fmt.Sprint(last)}
		written, err := c.Resource(configMaps, "a").Update(server.Ctx, o)
		must.Succeed(t, err)
		read, err := c.Resource(configMaps, "a").Get(server.Ctx, "a")
		must.Succeed(t, err)
		if last = written.GetMetadata().GetResourceVersion(); read.GetMetadata().GetResourceVersion() < last {
			t.Fatalf("read revision %d after revision %d was written", read.GetMetadata().GetResourceVersion(), last)
		}
		if !first.Writing() || second.Writing() {
			t.Fatalf("the first service writes: %t; the second: %t", first.Writing(), second.Writing())
		}
	}
	first.Stop()
	second.writing()
	server.create("b")
}
