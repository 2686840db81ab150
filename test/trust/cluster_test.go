package trust_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/graph"
)

// ofFile returns the roles of the users of a file, and what graph services have of it; nothing without a file.
func ofFile(users *access.File) ([]bus.Role, *access.Current) {
	if users == nil {
		return nil, nil
	}
	table := &access.Current{}
	table.Set(users.Table())
	return users.NATSRoles(), table
}

// startCluster starts three NATS servers with an account for each actor, and a graph
// service with streams of three replicas. Connections go to the servers in turn.
func startCluster(t *testing.T, users *access.File) *realm {
	t.Helper()
	also, table := ofFile(users)
	const size = 3
	var conf strings.Builder
	password := func(role string) string { return "secret-of-" + role }
	must.Succeed(t, natsconf.Accounts(&conf, slices.Concat(natsconf.DefaultRoles(), added(), also), func(role string) string { return `"` + password(role) + `"` }))
	ports := testkit.FreePorts(t, size)
	routes := make([]string, size)
	for i, port := range ports {
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", port)
	}
	var servers []*server.Server
	for i, port := range ports {
		opts := &server.Options{
			ServerName: fmt.Sprint("n", i+1), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), MaxPayload: natsd.MaxPayload, AuthTimeout: testkit.Timeout.Seconds(), DisableJetStreamBanner: true,
			Cluster: server.ClusterOpts{Name: "trust", Host: "127.0.0.1", Port: port},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		}
		must.Succeed(t, opts.ProcessConfigString(conf.String()))
		s, err := server.NewServer(opts)
		must.Succeed(t, err)
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers = append(servers, s)
	}
	r := &realm{Stack: &stack.Stack{TB: t, Ctx: testkit.Context(t)}}
	r.WaitFor("the servers to elect a leader", func() bool {
		for _, s := range servers {
			if s.JetStreamIsLeader() {
				return s.NumRoutes() > 0
			}
		}
		return false
	})
	var turn atomic.Int64
	r.connect = func(role string, opts ...nats.Option) (*nats.Conn, error) {
		s := servers[turn.Add(1)%size]
		return nats.Connect(s.ClientURL(), append([]nats.Option{
			nats.UserInfo(role, password(role)), nats.CustomInboxPrefix(bus.InboxPrefix(role)), nats.Timeout(testkit.Timeout), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		}, opts...)...)
	}
	g, err := graph.New(graph.Config{
		Conn: r.conn(bus.RoleGraph), Answers: r.conn(bus.RoleAnswers), Access: table, Secrets: testkit.Secrets(), Dir: t.TempDir(), Replicas: size, LeaseTTL: testkit.Timeout,
	})
	must.Succeed(t, err)
	testkit.Run(t, g.Run)
	r.WaitFor("the graph service to write", func() bool { return g.Writing() && g.Ready() == nil })
	r.populate()
	return r
}
