// Package allinone runs an embedded NATS server and all services in one
// process: what `coppice up`, `coppice demo` and many tests need. Each service
// has its own connection, under the permissions of its own role; they meet on
// subjects only.
//
//	             ┌── graph ──────┐
//	natsd ◄──────┼── processors ─┤   each an actor of one run.Group;
//	(JetStream,  ├── finalizers ─┤   the first to end ends the others,
//	 synced)     └── scanner ────┘   and the server ends last
package allinone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/oklog/run"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/finalizers"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/processor"
	"github.com/coppice-gc/coppice/services/scanner"
)

// Config is what to run. A zero value of a field selects the default that is named.
type Config struct {
	// Dir is where the server and the graph service keep their data. Required.
	Dir string
	// Host and Port are where the server listens; without a port, nowhere.
	Host string
	Port int
	// Servers is the number of NATS servers, and of copies of each stream; 1. Several are a cluster,
	// each in a directory of its own below Dir, and all services are connected to the first: for
	// tests and benchmarks. Port must be zero then.
	Servers int
	// Realms are added to the list of realms unless they were deleted; bus.DefaultRealm. All
	// realms of the list are served.
	Realms []string
	// Auth refuses clients without a password: each actor has an account of its own,
	// and a file below UsersDir. Without it every client is the local user
	// (bus.LocalRole), and the services of this process share the account of the log.
	Auth bool
	// OneAccount, without Auth, has all users in the account of the log, as on a NATS server without
	// accounts: for tests.
	OneAccount bool
	// Users is the users file, with Auth: its users take the place of bus.Roles, apart from the operator, unless the file
	// has a user of this name.
	Users *access.File
	// Roles are users in addition to those of the services and the local user, or,
	// with Auth, to bus.Roles and the administrator.
	Roles []bus.Role
	// Processors is how many garbage processors there are; 1.
	Processors int
	Version    string
	Log        *slog.Logger
	Registry   prometheus.Registerer
	// TracerProvider records spans of all services; nil for none.
	TracerProvider trace.TracerProvider
	// Graph, Processor and Scanner change the services' configurations.
	Graph     func(*graph.Config)
	Processor func(*processor.Config)
	Scanner   func(*scanner.Config)
}

// Stack is what runs.
type Stack struct {
	c Config
	// servers are the NATS servers. The services are connected to the first.
	servers []*natsd.Server
	group   run.Group
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error

	mu    sync.Mutex
	conns []*nats.Conn
	ready []func() error
	graph *graph.Service
	// measured are the roles whose connections have metrics.
	measured []string
}

// Start starts everything. Stop, or the end of ctx, ends it.
func Start(ctx context.Context, c Config) (*Stack, error) {
	if len(c.Realms) == 0 {
		c.Realms = []string{bus.DefaultRealm}
	}
	if c.Processors == 0 {
		c.Processors = 1
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Stack{c: c, ended: make(chan struct{})}
	nc := natsd.Config{Dir: filepath.Join(c.Dir, "nats"), Host: c.Host, Port: c.Port, OutlastFullDisk: true}
	if c.Auth {
		nc.Roles, nc.Accounts = append(c.defaultRoles(), c.Roles...), true
		var err error
		if nc.Passwords, err = passwords(c.Dir, nc.Roles); err != nil {
			return nil, err
		}
	} else {
		nc.Roles, nc.Accounts = append(append(bus.Roles(bus.AnyRealm), bus.LocalRole(bus.AnyRealm)), c.Roles...), !c.OneAccount
		for i := range bus.ServiceRoles() { // of this process: they come first
			nc.Roles[i].Core = true
		}
	}
	nc.Logf = func(format string, args ...any) { c.Log.Warn("nats: " + fmt.Sprintf(format, args...)) }
	var err error
	if s.servers, err = startServers(nc, c.Servers); err != nil {
		return nil, err
	}
	if c.Auth {
		if err := writeUsers(c.Dir, s.Server().URL(), nc.Roles, nc.Passwords); err != nil {
			return nil, errors.Join(err, natsd.ShutdownAll(s.servers))
		}
	}
	ctx, s.cancel = context.WithCancel(ctx)
	if err := s.services(ctx); err != nil {
		s.cancel()
		s.closeAll()
		return nil, err
	}
	s.group.Add(func() error {
		<-ctx.Done()
		return nil
	}, func(error) { s.cancel() })
	go func() {
		defer close(s.ended)
		s.err = s.group.Run()
		s.cancel()
		s.closeAll()
	}()
	return s, nil
}

// defaultRoles returns the roles of the services, of the administrator, and of the users that a server with passwords has.
func (c *Config) defaultRoles() []bus.Role {
	if c.Users == nil {
		return natsconf.DefaultRoles()
	}
	roles := append(bus.ServiceRoles(bus.AnyRealm), bus.AdminRole())
	if c.Users.Users[bus.RoleOperator] == nil {
		roles = append(roles, bus.OperatorRole(bus.RoleOperator, bus.AnyRealm))
	}
	return append(roles, c.Users.NATSRoles()...)
}

// startServers starts a NATS server, or a cluster of several.
func startServers(c natsd.Config, count int) ([]*natsd.Server, error) {
	if count > 1 {
		return natsd.StartCluster(c, count)
	}
	server, err := natsd.Start(c)
	return []*natsd.Server{server}, err
}

func (s *Stack) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, nc := range s.conns {
		nc.Close()
	}
	if err := natsd.ShutdownAll(s.servers); err != nil {
		s.err = errors.Join(s.err, err)
	}
}

// actor adds a service to the group.
func (s *Stack) actor(ctx context.Context, run func(context.Context) error, ready func() error) {
	ctx, cancel := context.WithCancel(ctx)
	s.group.Add(func() error { return run(ctx) }, func(error) { cancel() })
	s.ready = append(s.ready, ready)
}

// Secrets returns the secrets of a directory. If it has none, it gets one, unless it has a log or a state: the error
// is then secret.ErrLost.
func Secrets(dir string) (secret.Secrets, error) {
	written := []string{"nats/jetstream/*/streams/" + bus.LogStream("*")}
	for _, pattern := range graph.Written() {
		written = append(written, "graph/"+pattern)
	}
	return secret.LoadOrDraw(filepath.Join(dir, secret.FileName), written...)
}

func (s *Stack) services(ctx context.Context) error {
	nc, err := s.serviceConn(bus.RoleGraph)
	if err != nil {
		return err
	}
	answers, err := s.serviceConn(bus.RoleAnswers)
	if err != nil {
		return err
	}
	secrets, err := Secrets(s.c.Dir)
	if err != nil {
		return err
	}
	gc := graph.Config{
		Conn: nc, Answers: answers, AnyActor: !s.c.Auth, // without Auth every client is the local user
		Secrets: secrets, OutlastFullDisk: true,
		Realms: s.c.Realms, Dir: filepath.Join(s.c.Dir, "graph"), DataDir: s.c.Dir, Replicas: s.c.Servers, Version: s.c.Version,
		Log: s.c.Log.With("service", "graph"), Registry: s.c.Registry, TracerProvider: s.c.TracerProvider,
	}
	if s.c.Users != nil {
		gc.Access = &access.Current{}
		gc.Access.Set(s.c.Users.Table())
	}
	if s.c.Graph != nil {
		s.c.Graph(&gc)
	}
	if s.graph, err = graph.New(gc); err != nil {
		return err
	}
	s.actor(ctx, s.graph.Run, func() error {
		if !s.graph.Writing() {
			return cmp.Or(s.graph.Ready(), errors.New("the graph service is not the writer yet"))
		}
		return s.graph.Ready()
	})
	for i := range s.c.Processors {
		if nc, err = s.serviceConn(bus.RoleProcessor); err != nil {
			return err
		}
		pc := processor.Config{Conn: nc, Realms: s.c.Realms, Instance: fmt.Sprintf("processor-%d", i+1), Log: s.c.Log.With("service", "processor", "instance", i+1), TracerProvider: s.c.TracerProvider}
		if i == 0 {
			pc.Registry = s.c.Registry
		}
		if s.c.Processor != nil {
			s.c.Processor(&pc)
		}
		p, err := processor.New(pc)
		if err != nil {
			return err
		}
		s.actor(ctx, p.Run, p.Ready)
	}
	if nc, err = s.serviceConn(bus.RoleFinalizers); err != nil {
		return err
	}
	f, err := finalizers.New(finalizers.Config{Conn: nc, Realms: s.c.Realms, Instance: "finalizers", Log: s.c.Log.With("service", "finalizers"), Registry: s.c.Registry, TracerProvider: s.c.TracerProvider})
	if err != nil {
		return err
	}
	s.actor(ctx, f.Run, f.Ready)
	if nc, err = s.serviceConn(bus.RoleScanner); err != nil {
		return err
	}
	sc := scanner.Config{Conn: nc, Realms: s.c.Realms, Log: s.c.Log.With("service", "scanner"), Registry: s.c.Registry}
	if s.c.Scanner != nil {
		s.c.Scanner(&sc)
	}
	scan, err := scanner.New(sc)
	if err != nil {
		return err
	}
	s.actor(ctx, scan.Run, scan.Ready)
	return nil
}

// serviceConn connects a service. The metrics of a role are those of its first connection.
func (s *Stack) serviceConn(role string) (*nats.Conn, error) {
	nc, err := s.Conn(role)
	if err == nil && s.c.Registry != nil && !slices.Contains(s.measured, role) {
		s.measured = append(s.measured, role)
		admin.RegisterConnection(s.c.Registry, role, nc)
	}
	return nc, err
}

// errStopped is returned by Conn after the services have stopped.
var errStopped = errors.New("the services have stopped")

// Conn connects with a role, within this process. The connection is closed
// with the stack. Conn fails once the stack has ended.
func (s *Stack) Conn(role string) (*nats.Conn, error) {
	select {
	case <-s.ended:
		return nil, errStopped
	default:
	}
	nc, err := dial.Service(context.Background(), s.Server().URL(), "coppice-"+role, s.c.Log, s.Server().Options(role)...)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, nc)
	return nc, nil
}

// Server is the embedded NATS server, the first of several.
func (s *Stack) Server() *natsd.Server { return s.servers[0] }

// Ready returns nil when all services are at work, and otherwise what is
// missing.
func (s *Stack) Ready() error {
	for _, ready := range s.ready {
		if err := ready(); err != nil {
			return err
		}
	}
	return nil
}

// Status names the phase of each realm.
func (s *Stack) Status() string { return s.graph.Status() }

// Await waits until all services are at work, or one of them has failed.
func (s *Stack) Await(ctx context.Context) error {
	err := poll.Until(ctx, func() (bool, error) {
		select {
		case <-s.ended:
			if s.err == nil {
				return false, errors.New("ended before it was ready")
			}
			return false, s.err
		default:
			return s.Ready() == nil, nil
		}
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("not ready: %w", cmp.Or(s.Ready(), err))
	}
	return err
}

// Ended is closed when everything has ended.
func (s *Stack) Ended() <-chan struct{} { return s.ended }

// Stop ends everything and waits for it. It returns the error with which a service has ended
// before; nil if everything ended because of this call.
func (s *Stack) Stop() error {
	s.cancel()
	<-s.ended
	return s.err
}
