package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
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
	must.Succeed(t, err)
	defer close(end)
	must.Succeed(t, sub.SetPendingLimits(1, -1))
	must.Succeed(t, nc.answers.Flush())
	publisher := n.Conn(bus.RoleApplication)
	for range 10 {
		must.Succeed(t, publisher.Publish(verb, nil))
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
	must.Succeed(t, sub.Unsubscribe())
	s.SinceDropped(time.Minute)
	if err := s.Ready(); err != nil {
		t.Errorf("later: %v", err)
	}
	s.Stop()
}
