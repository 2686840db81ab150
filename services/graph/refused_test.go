package graph_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
)

// refusalCounts returns the refusals that are counted, by "actor verb reason".
func refusalCounts(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	must.Succeed(t, err)
	counts := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "coppice_graph_refused_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			counts[labels["actor"]+" "+labels["verb"]+" "+labels["reason"]] += m.GetCounter().GetValue()
		}
	}
	return counts
}

// Refused requests, which are not in the log, are counted by actor, verb and reason, as are refused objects of a request.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	registry := prometheus.NewRegistry()
	n.serve(t.TempDir(), func(c *graph.Config) { c.Registry = registry }).writing()
	application, operator := n.as(bus.RoleApplication), n.as(bus.RoleOperator)
	objects := application.Resource(client.Resource{Plural: "configmaps"}, "default")
	named := func(name string) *coppicev1.Object {
		return &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name}}
	}
	for _, name := range []string{"kept", "there"} {
		_, err := objects.Create(n.Context(), named(name))
		must.Succeed(t, err)
	}
	if _, err := operator.Resource(client.Resource{Plural: "configmaps"}, "default").Protect(n.Context(), []string{"kept"}, "test"); err != nil {
		t.Fatal(err)
	}
	if got := refusalCounts(t, registry); len(got) > 0 {
		t.Errorf("before any refusal, %v are counted", got)
	}
	if _, err := objects.Delete(n.Context(), "kept"); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("the deletion of a protected object: %v", err)
	}
	if _, err := objects.Get(n.Context(), "nowhere"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a get of nothing: %v", err)
	}
	if _, err := objects.CreateBatch(n.Context(), []*coppicev1.Object{named("new"), named("there"), named("kept"), named("Not A Name")}); err != nil {
		t.Errorf("a batch: %v", err)
	}
	// Another inbox than that of the actor.
	nc := n.Conn(bus.RoleReader)
	subject := bus.API{Realm: realm, Actor: bus.RoleReader, Verb: bus.VerbGet, Plural: "pods", Namespace: "default"}.Subject()
	m := &nats.Msg{Subject: subject, Reply: "_INBOX." + bus.RoleOperator + ".x", Header: nats.Header{bus.HeaderRequest: []string{bus.VerbGet}}}
	must.Succeed(t, nc.PublishMsg(m))
	m.Reply, m.Header = nc.NewInbox(), nil // no verb in the headers
	must.Succeed(t, nc.PublishMsg(m))
	want := map[string]float64{
		"application delete Forbidden": 1, "application get NotFound": 1, "application create AlreadyExists": 2, "application create Invalid": 1,
		"reader get Forbidden": 1, "reader get BadRequest": 1,
	}
	n.WaitFor(fmt.Sprintf("the counts %v", want), func() bool {
		got := refusalCounts(t, registry)
		t.Log(got)
		return maps.Equal(got, want)
	})
}

// However many actors clients make up, there are at most 201 of them in the metric, and at most some 2,000 series.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	count := graph.NewRefusals(registry, realm)
	count("\xff\xfe", bus.VerbGet, api.ErrBadRequest, 1) // no name of an actor, and no text
	count(strings.Repeat("x", 4000), bus.VerbGet, api.ErrBadRequest, 1)
	for i := range 300 {
		count(fmt.Sprint("actor-", i), bus.VerbGet, api.ErrForbidden, 2)
	}
	got := refusalCounts(t, registry)
	if len(got) != 202 || got["actor-199 get Forbidden"] != 2 || got["other get Forbidden"] != 200 || got["other get BadRequest"] != 2 {
		t.Errorf("there are %d series, %v for actor 199, %v and %v for others", len(got), got["actor-199 get Forbidden"], got["other get Forbidden"], got["other get BadRequest"])
	}
	reasons := []api.Reason{api.ErrForbidden, api.ErrBadRequest, api.ErrInvalid, api.ErrNotFound, api.ErrConflict}
	for i := range 200 {
		for _, verb := range bus.Verbs() {
			for _, reason := range reasons {
				count(fmt.Sprint("actor-", i), verb, reason, 1)
			}
		}
	}
	got = refusalCounts(t, registry)
	sum := 0.0
	for _, n := range got {
		sum += n
	}
	pairs := len(bus.Verbs()) * len(reasons)
	if most := 2000 + pairs; len(got) > most || sum != float64(2+2*300+200*pairs) {
		t.Errorf("there are %d series, want at most %d; they count %v refusals of %d", len(got), most, sum, 2+2*300+200*pairs)
	}
}
