package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph"
)

// Requests that the NATS client drops before the service reads them are counted, and the
// service is not ready for a while. They were dropped without a trace other than a line in the log.
func TestDroppedRequestsAreShown(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	nc := n.connect()
	registry := prometheus.NewRegistry()
	s := serve(t, nc, t.TempDir(), func(c *graph.Config) { c.Registry = registry }).writing()
	n.WaitFor("the service to be ready", func() bool { return s.Ready() == nil })
	if n := metric(t, registry, "coppice_graph_requests_dropped_total"); n != 0 {
		t.Errorf("%v requests were dropped before", n)
	}
	// An endpoint that reads nothing until the end.
	verb := bus.API{Realm: realm, Actor: bus.RoleApplication, Verb: bus.VerbGet, Plural: "pods"}.Subject()
	end := make(chan struct{})
	sub, err := nc.answers.Subscribe(verb, func(*nats.Msg) { <-end })
	if err != nil {
		t.Fatal(err)
	}
	defer close(end)
	if err := sub.SetPendingLimits(1, -1); err != nil {
		t.Fatal(err)
	}
	if err := nc.answers.Flush(); err != nil {
		t.Fatal(err)
	}
	publisher := n.Conn(bus.RoleApplication)
	for range 10 {
		if err := publisher.Publish(verb, nil); err != nil {
			t.Fatal(err)
		}
	}
	n.WaitFor("the service not to be ready", func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "realm "+realm+": requests were dropped")
	})
	// One is being handled and at most one waits.
	n.WaitFor("all to be counted", func() bool {
		_ = s.Ready()
		return metric(t, registry, "coppice_graph_requests_dropped_total") >= 8
	})
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	s.SinceDropped(time.Minute)
	if err := s.Ready(); err != nil {
		t.Errorf("later: %v", err)
	}
	s.Stop()
}
