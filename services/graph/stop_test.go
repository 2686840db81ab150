package graph_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
)

// What has come in when a service ends is answered or dropped, and does not
// reach for a state that is closed.
func TestStopWithRequestsQueued(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	dir := t.TempDir()
	request, err := rpc.Encode(&coppicev1.GetRequest{Names: []string{"absent"}})
	must.Succeed(t, err)
	nc := server.Conn(bus.RoleApplication)
	for range 3 {
		s := server.serve(dir, nil).writing()
		for range 1500 {
			for _, verb := range []string{bus.VerbGet, bus.VerbResolve, bus.VerbWatch, bus.VerbList} {
				subject := bus.API{Realm: realm, Actor: bus.RoleApplication, Verb: verb, Plural: "configmaps", Namespace: "a"}.Subject()
				m := &nats.Msg{Subject: subject, Reply: nc.NewInbox(), Header: rpc.Header(subject, nil), Data: request}
				must.Succeed(t, nc.PublishMsg(m))
			}
		}
		must.Succeed(t, nc.Flush())
		s.Stop()
	}
}

// A standby that is stopped has its state on disk, as a writer has: the next start does not
// fold or rebuild it again.
func TestStopOfStandby(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	writer := server.serve(t.TempDir(), nil).writing()
	one := put(server.Ctx, t, server.application(), configMap("one"))
	dir, registry := t.TempDir(), prometheus.NewRegistry()
	standby := server.serve(dir, func(c *graph.Config) { c.Registry = registry })
	server.WaitFor("the standby to follow the log", func() bool {
		return standby.Ready() == nil && metric(t, registry, "coppice_graph_revision") == float64(one.GetMetadata().GetResourceVersion())
	})
	standby.Stop()
	if is, want := checkpoint(t, dir).GetPosition(), uint64(lastOf(t, server.JS())); is != want {
		t.Errorf("after a stop the state of a standby is at %d, and the log ends at %d", is, want)
	}
	writer.Stop()
}

// TestStopUnderLoad stops a service while requests arrive. The service must not crash, and
// must answer each request or leave it to the client's timeout.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	dir := t.TempDir()
	for range 3 {
		s := server.serve(dir, nil).writing()
		load, end := context.WithCancel(server.Ctx)
		done := make(chan struct{})
		requests := make(chan struct{}, 1<<16)
		const clients = 4
		for range clients {
			go func() {
				defer func() { done <- struct{}{} }()
				c := server.as(bus.RoleApplication, client.WithTimeout(testkit.Timeout))
				objects := c.Resource(configMaps, "a")
				answered := func(what string, err, want error) {
					if load.Err() == nil && !errors.Is(err, want) {
						t.Errorf("%s: %v, want %v", what, err, want)
					}
				}
				for load.Err() == nil {
					_, err := objects.Get(load, "absent")
					answered("get", err, client.ErrNotFound)
					_, err = objects.Resolve(load, []string{"absent"})
					answered("resolve", err, client.ErrNotFound)
					_, err = objects.ListPage(load)
					answered("list", err, nil)
					_, err = objects.Create(load, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{GenerateName: "n-"}})
					answered("create", err, nil)
					select {
					case requests <- struct{}{}:
					default:
					}
				}
			}()
		}
		for range 10 * clients {
			testkit.Receive(t, server.Ctx, "requests", requests)
		}
		s.Stop()
		end()
		for range clients {
			testkit.Receive(t, server.Ctx, "a client's end", done)
		}
	}
}
