package allinone_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

func TestMain(m *testing.M) {
	testkit.ManyAtOnce()
	testkit.Main(m)
}

func objects(s *stack.Stack, realm string) client.ResourceClient {
	s.TB.Helper()
	return client.New(s.Conn(), client.WithRealm(realm)).Resource(configMaps, "shop")
}

var named = stack.Named

// Acknowledged writes are there after a restart, each in its realm.
func TestRestart(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c := allinone.Config{Dir: t.TempDir(), Realms: []string{"one", "two"}, Processors: 2}
	s := stack.Start(t, c)
	created, err := objects(s, "one").Create(ctx, named("a"))
	must.Succeed(t, err)
	s.Stop()
	s.Stop()
	testkit.Receive(t, ctx, "the end", s.Services.Ended())

	s = stack.Start(t, c)
	found, err := objects(s, "one").Get(ctx, "a")
	if err != nil || found.GetMetadata().GetUid() != created.GetMetadata().GetUid() {
		t.Errorf("after the restart there is %v, %v", found, err)
	}
	if _, err := objects(s, "two").Get(ctx, "a"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("the other realm: %v", err)
	}
}

// A directory is one stack's at a time, and so is a port.
func TestTaken(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	dir := t.TempDir()
	s := stack.Start(t, allinone.Config{Dir: dir, Port: -1})
	if _, err := allinone.Start(ctx, allinone.Config{Dir: dir}); !errors.Is(err, natsd.ErrInUse) {
		t.Errorf("the same directory: %v", err)
	}
	_, text, err := net.SplitHostPort(strings.TrimPrefix(s.Services.Server().URL(), "nats://"))
	must.Succeed(t, err)
	port, err := strconv.Atoi(text)
	must.Succeed(t, err)
	if _, err := allinone.Start(ctx, allinone.Config{Dir: t.TempDir(), Port: port}); err == nil || !strings.Contains(err.Error(), "cannot listen on 127.0.0.1:"+text) {
		t.Errorf("the same port: %v", err)
	}
}

// The end of the context ends everything.
func TestContext(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := allinone.Start(within, allinone.Config{Dir: t.TempDir()})
	must.Succeed(t, err)
	must.Succeed(t, testkit.Await(ctx, s))
	cancel()
	testkit.Receive(t, ctx, "the end", s.Ended())
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := s.Conn(bus.LocalUser); err == nil {
		t.Error("Conn has connected after the end of the services")
	}
}

// When a service ends, all end, and the reason is returned, also to callers that wait until
// the service is ready.
func TestServiceFails(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	dir := t.TempDir()
	s := stack.Start(t, allinone.Config{Dir: dir})
	s.Create(configMaps, "shop", named("a"))
	s.Stop()
	// The same state with an empty NATS server.
	failing, err := allinone.Start(ctx, allinone.Config{Dir: t.TempDir(), Graph: func(c *graph.Config) { c.Dir = dir + "/graph" }})
	must.Succeed(t, err)
	var mismatch *replay.MismatchError
	if err := failing.Await(ctx); !errors.As(err, &mismatch) {
		t.Errorf("awaited: %v", err)
	}
	testkit.Receive(t, ctx, "the end", failing.Ended())
	if err := failing.Stop(); !errors.As(err, &mismatch) {
		t.Errorf("stopped: %v", err)
	}
}

// A client that connects without a user name may use the object API, and may not do
// anything that would break the realm.
func TestLocalUser(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	s := stack.Start(t, allinone.Config{Port: -1})
	refused := make(chan error, 10)
	nc, err := nats.Connect(s.Services.Server().URL(), nats.Timeout(testkit.Timeout), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	must.Succeed(t, err)
	defer nc.Close()
	if _, err := client.New(nc).Resource(client.Resource{Plural: "configmaps"}, "shop").Create(ctx, named("a")); err != nil {
		t.Error(err)
	}
	log := bus.LogStream(bus.DefaultRealm)
	for _, subject := range []string{
		bus.LogSubject(bus.DefaultRealm), bus.InternalSubject(bus.DefaultRealm, bus.OpPropose), "$KV." + bus.LeaseBucket + "." + bus.MemberKey("x"), "$KV." + bus.WriterBucket + "." + bus.DefaultRealm,
		bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), bus.Finalize{Realm: bus.DefaultRealm, Plural: "pods", UID: "u", Finalizer: "example.com/x"}.Subject(),
		bus.Terminate{Realm: bus.DefaultRealm, Plural: "pods", UID: "u"}.Subject(), bus.Warning{Realm: bus.DefaultRealm, Plural: "pods", UID: "u", Reason: "X"}.Subject(),
		"$JS.API.STREAM.DELETE." + log, "$JS.API.STREAM.PURGE." + bus.WorkStream(bus.DefaultRealm), "$JS.API.STREAM.UPDATE." + log,
		"$JS.API.STREAM.SNAPSHOT." + log, "$JS.API.STREAM.MSG.GET." + log, "$JS.API.STREAM.MSG.DELETE." + bus.ParkedStream(bus.DefaultRealm),
		"$JS.API.DIRECT.GET." + log, "$JS.API.CONSUMER.CREATE." + log + ".x", "$JS.API.CONSUMER.CREATE." + bus.WarningStream(bus.DefaultRealm) + ".x",
		"$JS.API.CONSUMER.CREATE." + bus.FinalizeStream(bus.DefaultRealm) + ".x", "$JS.API.CONSUMER.DURABLE.CREATE." + bus.FinalizeStream(bus.DefaultRealm) + ".x",
		"$JS.API.CONSUMER.MSG.NEXT." + bus.WorkStream(bus.DefaultRealm) + "." + bus.DurableProcessors, "$JS.ACK." + bus.WorkStream(bus.DefaultRealm) + ".x",
		"$JS.ACK." + bus.WorkStream(bus.DefaultRealm) + "." + bus.DurableProcessors + ".1.1.1.1.0", "$JS.ACK._.h." + bus.WorkStream(bus.DefaultRealm) + "." + bus.DurableFinish + ".1.1.1.1.0.0",
		"$JS.API.CONSUMER.MSG.NEXT." + bus.WorkStream(bus.DefaultRealm) + "." + bus.DurableOrphan, "$KV." + bus.RealmBucket + "." + bus.DefaultRealm,
	} {
		must.Succeed(t, nc.Publish(subject, []byte("x")))
		if err := testkit.Receive(t, ctx, "a refusal of "+subject, refused); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// The error for the directory graph of another installation says what helps in a directory that has the log too.
func TestGraphOfAnother(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	dir, other := t.TempDir(), t.TempDir()
	s := stack.Start(t, allinone.Config{Dir: dir})
	s.Create(configMaps, "shop", named("a"))
	s.Stop()
	stack.Start(t, allinone.Config{Dir: other}).Stop()
	states := filepath.Join(dir, "graph")
	must.Succeed(t, errors.Join(os.RemoveAll(states), os.CopyFS(states, os.DirFS(filepath.Join(other, "graph")))))
	refused := func(says string, not ...string) {
		t.Helper()
		s, err := allinone.Start(ctx, allinone.Config{Dir: dir})
		if err == nil {
			err = errors.Join(s.Await(ctx), s.Stop())
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Fatalf("the error does not say %q: %v", says, err)
		}
		for _, text := range not {
			if strings.Contains(err.Error(), text) {
				t.Errorf("the error says %q: %v", text, err)
			}
		}
	}
	refused("Move the directory "+states+" away: the next start then replays the log", "--data", "--accept-loss")
	must.Succeed(t, os.Rename(filepath.Join(states, bus.DefaultRealm), filepath.Join(dir, "away")))
	refused("the file "+tail.File(states, bus.DefaultRealm), "--accept-loss")
	must.Succeed(t, os.RemoveAll(states))
	s = stack.Start(t, allinone.Config{Dir: dir})
	s.Get(configMaps, "shop", "a")
}

// A stack does not create a secret for a log or a state that was written with another one.
func TestSecretLost(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	dir := t.TempDir()
	stack.Start(t, allinone.Config{Dir: dir}).Stop()
	file, states, log := filepath.Join(dir, secret.FileName), filepath.Join(dir, "graph"), filepath.Join(dir, "nats")
	backup := filepath.Join(t.TempDir(), "secret")
	must.Succeed(t, os.Rename(file, backup))
	refused := func(with string) {
		t.Helper()
		s, err := allinone.Start(ctx, allinone.Config{Dir: dir})
		if err == nil {
			err = errors.Join(s.Await(ctx), s.Stop())
		}
		if err == nil || !strings.Contains(err.Error(), file+" does not exist") || !strings.Contains(err.Error(), "from the backup") {
			t.Errorf("with %s: %v", with, err)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("with %s, a secret was created: %v", with, err)
			_ = os.Remove(file)
		}
	}
	refused("a log and a state")
	away := filepath.Join(t.TempDir(), "away")
	must.Succeed(t, os.Rename(states, away))
	refused("a log")
	must.Succeed(t, errors.Join(os.Rename(away, states), os.Rename(log, away)))
	refused("a state")
	must.Succeed(t, errors.Join(os.RemoveAll(log), os.Rename(away, log), os.Rename(backup, file)))
	stack.Start(t, allinone.Config{Dir: dir})
}
