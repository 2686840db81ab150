// Package api_test shows the object API as clients see it, through everything:
// NATS, the graph service, processors, finalizers, the scanner.
package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	replicasets = client.Resource{Group: "apps", Plural: "replicasets"}
	pods        = client.Resource{Plural: "pods"}
)

// realm is a running realm, whose client acts for ana.
type realm struct{ *stack.Stack }

func start(t *testing.T) *realm {
	t.Helper()
	return startWith(t, allinone.Config{})
}

func startWith(t *testing.T, c allinone.Config) *realm {
	t.Helper()
	change := c.Graph
	c.Graph = func(g *graph.Config) {
		g.PlanTime = testkit.Timeout // the machine may be slow
		if change != nil {
			change(g)
		}
	}
	return &realm{stack.Start(t, c, client.WithActor("ana"))}
}

// with returns the realm for a subtest.
func (r *realm) with(t *testing.T) *realm {
	t.Helper()
	return &realm{r.With(t)}
}

// request sends JSON to the object API, until the reply does not ask to send it again, and returns that reply.
func (r *realm) request(verb, rest, body string, header ...string) *nats.Msg {
	r.TB.Helper()
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
	r.WaitFor("the reply of "+m.Subject, func() bool {
		var err error
		if reply, err = r.Conn().RequestMsg(m, testkit.Timeout); err != nil {
			r.TB.Fatalf("%s: %v", m.Subject, err)
		}
		return reply.Header.Get(bus.HeaderRetryAfter) == "" // a busy service asks to repeat the request
	})
	return reply
}

var named = stack.Named

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
