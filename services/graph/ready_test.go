package graph_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
)

// A realm that fails does not affect the other realms of the process. Readiness has the
// reason, and the realm continues when the cause is gone.
func TestBrokenRealm(t *testing.T) {
	t.Parallel()
	n := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(realm, "other")})
	js := n.JS()
	unfit := bus.LogConfig("other", 1)
	unfit.MaxAge = time.Hour
	if _, err := js.CreateStream(n.Ctx, unfit); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	s := n.serve(t.TempDir(), func(c *graph.Config) {
		c.Realms, c.Registry = []string{realm, "other"}, registry
	})
	create(n.Ctx, t, n.as(bus.RoleApplication, client.WithTimeout(testkit.Timeout)), "one")
	n.WaitFor("the other realm to have failed twice", func() bool {
		return metric(t, registry, "coppice_graph_realm_failures_total") >= 2
	})
	err := s.Ready()
	if err == nil || !strings.Contains(err.Error(), "realm other: ") || !strings.Contains(err.Error(), "max_age") || strings.Contains(err.Error(), "realm "+realm) {
		t.Errorf("ready: %v", err)
	}
	if _, err := js.UpdateStream(n.Ctx, bus.LogConfig("other", 1)); err != nil {
		t.Fatal(err)
	}
	s.writing()
	n.WaitFor("the service to be ready", func() bool { return s.Ready() == nil })
	if status := s.Status(); !strings.Contains(status, "realm other: writer") {
		t.Errorf("status %q", status)
	}
	s.Stop()
}

// A service that is cut off from NATS is not ready.
func TestNotReadyWithoutNATS(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	proxy := testkit.NewProxy(t, n.Server.URL())
	s := serve(t, n.dial(proxy.URL()), t.TempDir(), nil).writing()
	proxy.Set(testkit.ToServer, testkit.Discard)
	proxy.Set(testkit.ToClient, testkit.Discard)
	proxy.Cut()
	n.WaitFor("the service not to be ready", func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "not connected to NATS")
	})
	proxy.Heal()
	n.WaitFor("the service to be ready again", func() bool { return s.Ready() == nil })
	s.Stop()
}

// While NATS refuses storage, because other streams reserve it, the service says in its
// readiness and in its log what is missing and what to do. It starts when there is room.
func TestNotReadyWithoutStorage(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"for the list of realms": true, "for the log": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: append(bus.Roles(realm), bus.Role{Name: "all", Publish: []string{">"}, Subscribe: []string{">"}})})
			js, err := jetstream.New(n.Conn("all"))
			must.Succeed(t, err)
			if !first {
				if _, err := bus.EnsureBucket(n.Ctx, js, bus.RealmBucket, 1); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := js.CreateStream(n.Ctx, jetstream.StreamConfig{Name: "greedy", Subjects: []string{"greedy"}, MaxBytes: natsd.MaxStore}); err != nil {
				t.Fatal(err)
			}
			var log testkit.Output
			s := n.serve(t.TempDir(), func(c *graph.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			const missing, advice = "insufficient storage resources available", "raise max_file_store"
			says := func(text string) bool { return strings.Contains(text, missing) && strings.Contains(text, advice) }
			testkit.WaitFor(t, n.Ctx, "readiness to name the storage", func() bool {
				err := s.Ready()
				return err != nil && says(err.Error())
			})
			testkit.WaitFor(t, n.Ctx, "the log to name the storage", func() bool { return says(log.String()) })
			must.Succeed(t, js.DeleteStream(n.Ctx, "greedy"))
			s.writing()
			testkit.WaitFor(t, n.Ctx, "the service to be ready with storage", func() bool { return s.Ready() == nil })
			s.Stop()
		})
	}
}

// An append that NATS does not acknowledge, as when its disk is full, makes the writer
// not ready, until it is acknowledged.
func TestNotReadyWhileAnAppendWaits(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	proxy := testkit.NewProxy(t, n.Server.URL())
	nc := conns{testkit.Dial(t, n.Server, proxy.URL(), bus.RoleGraph), n.Conn(bus.RoleAnswers)}
	s := serve(t, nc, t.TempDir(), nil).writing()
	created := make(chan error, 1)
	c := n.as(bus.RoleApplication, client.WithTimeout(testkit.Timeout))
	proxy.Set(testkit.ToServer, testkit.Discard)
	go func() {
		_, err := c.Resource(configMaps, "a").Create(n.Ctx, configMap("one"))
		created <- err
	}()
	n.WaitFor("the append to be overdue", func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "an append to its log has been waiting for")
	})
	proxy.Heal()
	must.Succeed(t, testkit.Receive(t, n.Ctx, "the command", created))
	n.WaitFor("the service to be ready", func() bool { return s.Ready() == nil })
	s.Stop()
}

// The streams of a realm reserve nothing on the disk of the server, and are left alone
// if they are as they should be.
func TestStreamsReserveNothing(t *testing.T) {
	t.Parallel()
	n := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: append(bus.Roles(realm), bus.Role{Name: "all", Publish: []string{">"}, Subscribe: []string{">"}})})
	s := n.serve(t.TempDir(), nil).writing()
	s.Stop()
	nc := n.Conn("all")
	js, err := jetstream.New(nc)
	must.Succeed(t, err)
	for _, c := range bus.WorkConfigs(realm, 1) {
		stream, err := js.Stream(n.Ctx, c.Name)
		must.Succeed(t, err)
		if got := stream.CachedInfo().Config.MaxBytes; got > 0 {
			t.Errorf("stream %s reserves %d bytes", c.Name, got)
		}
	}
	updates, err := nc.SubscribeSync("$JS.API.STREAM.UPDATE.>")
	must.Succeed(t, err)
	must.Succeed(t, nc.Flush())
	s = n.serve(t.TempDir(), nil).writing()
	s.Stop()
	if n, _, err := updates.Pending(); n > 0 || err != nil {
		t.Errorf("%d streams were updated, %v", n, err)
	}
}

// A user with permission to publish work cannot fill the disk of the log with it: messages
// of work have a maximum size too, and a chunk has at most a quarter of it.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	n.serve(t.TempDir(), nil).writing()
	js := n.JetStream(bus.RoleScanner)
	var refused *jetstream.APIError
	if _, err := js.Publish(n.Ctx, bus.WorkSubject(realm, bus.QueueDirty), make([]byte, 1<<20+1)); !errors.As(err, &refused) || refused.ErrorCode != 10054 {
		t.Errorf("a message of more than 1 MiB: %v, want that it is too large", err)
	}
	if _, err := js.Publish(n.Ctx, bus.WorkSubject(realm, bus.QueueDirty), make([]byte, 256<<10)); err != nil {
		t.Errorf("a message of 256 KiB: %v", err)
	}
}
