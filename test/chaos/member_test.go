package chaos_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// servers is the number of NATS servers of a cluster, and of replicas of each stream.
const servers = 3

// member is a NATS server of a cluster, which a child runs.
type member struct {
	Name string
	Dir  string
	// Port and Cluster are the ports for clients and for the other servers. Cluster is zero for a
	// server that has no others.
	Port, Cluster int
	// Routes are the URLs of the other servers. Each is that of a proxy.
	Routes []string
	// Conf has the accounts.
	Conf string
	// Lazy acknowledges messages before they are on disk. No deployment may do this: it is a
	// negative control.
	Lazy bool
}

// nowhere is an address at which nothing listens. Servers tell each other this address, and
// so use the configured routes only, which lead through proxies.
const nowhere = "127.0.0.1:9"

// run runs the server until ctx ends.
func (m *member) run(ctx context.Context) error {
	opts := &server.Options{
		ServerName: m.Name, Host: "127.0.0.1", Port: m.Port, NoSigs: true,
		JetStream: true, StoreDir: m.Dir, JetStreamMaxStore: 1 << 40, SyncAlways: !m.Lazy, SyncInterval: time.Hour,
		MaxPayload: natsd.MaxPayload, MaxPending: 256 << 20, DisableJetStreamBanner: true,
	}
	if m.Cluster != 0 {
		opts.Cluster = server.ClusterOpts{Name: "chaos", Host: "127.0.0.1", Port: m.Cluster, Advertise: nowhere, NoAdvertise: true}
	}
	for _, r := range m.Routes {
		opts.Routes = append(opts.Routes, server.RoutesFromStr(r)...)
	}
	if err := opts.ProcessConfigString(m.Conf); err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(testkit.Timeout) {
		return fmt.Errorf("the NATS server was not ready within %v", testkit.Timeout)
	}
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// url returns the URL for clients.
func (m *member) url() string {
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port))
}

func (m *member) route() string {
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Cluster))
}

func (m *member) String() string { return fmt.Sprintf("NATS server %s in %s", m.Name, m.Dir) }
