package natsd

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster is the place of a server in a cluster on the loopback interface.
type Cluster struct {
	// Name is the name of the server. JetStream knows a server by it, also after a restart.
	Name string
	// Port is the port for the other servers, and Ports are those of all servers.
	Port  int
	Ports []int
}

func (c *Cluster) configure(opts *server.Options) {
	if c == nil {
		return
	}
	opts.ServerName = c.Name
	opts.Cluster = server.ClusterOpts{Name: "coppice", Host: "127.0.0.1", Port: c.Port}
	for _, p := range c.Ports {
		if p != c.Port {
			opts.Routes = append(opts.Routes, server.RoutesFromStr("nats://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))...)
		}
	}
}

// StartCluster starts n servers with the same users, n1, n2 and so on, each in the directory of
// its name below that of c. It waits until each accepts connections, not until JetStream has a
// leader.
func StartCluster(c Config, n int) (servers []*Server, err error) {
	c, err = c.complete() // they share the passwords
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	ports, err := freePorts(n)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	servers = make([]*Server, n)
	errs := make([]error, n)
	var starting sync.WaitGroup
	for i := range servers {
		m := c
		m.Cluster = &Cluster{Name: fmt.Sprint("n", i+1), Port: ports[i], Ports: ports}
		m.Dir, m.Port = filepath.Join(c.Dir, m.Cluster.Name), -1
		starting.Go(func() {
			var err error
			if servers[i], err = Start(m); err != nil {
				errs[i] = fmt.Errorf("NATS server %s: %w", m.Cluster.Name, err)
			}
		})
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, ShutdownAll(servers))
	}
	return servers, nil
}

// ShutdownAll ends servers at once, and waits until all have.
func ShutdownAll(servers []*Server) error {
	errs := make([]error, len(servers))
	var ending sync.WaitGroup
	for i, s := range servers {
		if s != nil {
			ending.Go(func() { errs[i] = s.Shutdown() })
		}
	}
	ending.Wait()
	return errors.Join(errs...)
}

// freePorts returns ports of the loopback interface on which nothing listens.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
