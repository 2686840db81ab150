package objects

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// request returns a request for which serveRequests has a handler.
func request(data []byte) *nats.Msg {
	at := bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleReader, Verb: bus.VerbGet, Plural: "pods", Namespace: "shop"}
	return &nats.Msg{Subject: at.Subject(), Data: data, Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}}}
}

// serveRequests has requests handled until the test has ended, and returns the connection of a client.
func serveRequests(t *testing.T, of *state.State, handle func(*serve.Server, *serve.Request)) *nats.Conn {
	t.Helper()
	n := testkit.NATS(t)
	s, err := serve.New(serve.Config{
		Realm: bus.DefaultRealm, Conn: testkit.Conn(t, n, bus.RoleAnswers), State: of, Log: slog.New(slog.DiscardHandler),
	}, serve.Shares{}, "coppice-test", "a test", "")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Stop() })
	if _, err := s.Serve(s.Verb(bus.VerbGet, func(q *serve.Request, _ bus.API) *lifecycle.Error { handle(s, q); return nil })); err != nil {
		t.Fatal(err)
	}
	return testkit.Conn(t, n, bus.RoleReader)
}
