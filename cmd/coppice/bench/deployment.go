package bench

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// Config is how to deploy what is measured.
type Config struct {
	// Dir is the directory for data; "" if the deployment does not run on this machine.
	Dir string
	// Processors is the number of garbage processors; 1 if zero.
	Processors int
	// Archive bounds the archive in Dir that the log is archived in; zero for no archive.
	Archive lifecycle.Retention
	// Processes runs each service as a process of its own, and the NATS
	// server in this one.
	Processes bool
	// Program returns the coppice program that runs a service as a process; this program if nil.
	Program  func() (string, error)
	Version  string
	Log      *slog.Logger
	Progress Progress
	// Traces records spans of what runs in this process; nil for none.
	Traces trace.TracerProvider
	// Measuring, unless nil, is called when a measurement begins. The function that it
	// returns is called when the measurement ends.
	Measuring func() (end func() error, err error)
}

// Progress is called with how much of a phase is done.
type Progress func(what string, done, total int)

// Deployment is what a benchmark measures: all services in this process, each
// service as a process of its own, or what runs already.
type Deployment struct {
	Client *client.Client
	// Conn connects as a role. It is nil for a deployment of Running.
	Conn func(role string) (*nats.Conn, error)

	c        Config
	children []*Child
	close    []func() error // in this order
}

// Running returns a deployment that runs already, measured through a client. If the
// configuration has a Dir, it runs on this machine.
func Running(cl *client.Client, c Config) *Deployment {
	c.defaults()
	return &Deployment{Client: cl, c: c}
}

// Deploy starts an embedded NATS server, which syncs every commit to disk, and
// the services. Close stops them.
func Deploy(ctx context.Context, c Config) (*Deployment, error) {
	c.defaults()
	if c.Processes {
		d := &Deployment{c: c}
		if err := d.startProcesses(ctx); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return d, nil
	}
	stack := allinone.Config{Dir: c.Dir, Processors: c.Processors, Version: c.Version, Log: c.Log, TracerProvider: c.Traces}
	if c.archives() {
		store, err := stores.Opener{}.Create(ctx, c.archive())
		if err != nil {
			return nil, err
		}
		stack.Graph = func(g *graph.Config) { g.Archive, g.ArchiveRetention = store, c.Archive }
	}
	return Start(ctx, stack, c)
}

// Start starts a stack in this process, and waits until it is ready. Close stops it.
func Start(ctx context.Context, config allinone.Config, c Config) (*Deployment, error) {
	c.defaults()
	stack, err := allinone.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	d := &Deployment{c: c, Conn: stack.Conn, close: []func() error{stack.Stop}}
	if err := stack.Await(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	nc, err := stack.Conn(bus.LocalUser)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.Client = client.New(nc, client.WithActor(Actor), client.WithTracerProvider(c.Traces))
	return d, nil
}

// Actor is the actor of the benchmarks' commands in the log.
const Actor = bus.RoleBench

func (c *Config) defaults() {
	if c.Processors == 0 {
		c.Processors = 1
	}
	if c.Program == nil {
		c.Program = os.Executable
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	if c.Measuring == nil {
		c.Measuring = func() (func() error, error) { return func() error { return nil }, nil }
	}
}

func (c *Config) archives() bool { return c.Archive != lifecycle.Retention{} }

// archive returns where the log is archived.
func (c *Config) archive() archive.Location {
	return archive.Location{Scheme: "file", Dir: filepath.Join(c.Dir, "archive")}
}

// Close stops what Deploy or Start has started, and keeps its data.
func (d *Deployment) Close() error {
	var err error
	for _, end := range d.close {
		err = errors.Join(err, end())
	}
	d.close, d.children = nil, nil
	return err
}

// local reports whether the deployment runs on this machine.
func (d *Deployment) local() bool { return d.c.Dir != "" }

// StartServer starts a NATS server with an account for each actor, as deployments have it, and
// creates the secret of the graph services. The benchmarks are the actor that
// 'coppice nats-config --bench' adds. start starts a service as a child of this process.
func (c Config) StartServer() (server *natsd.Server, start func(role string, args ...string) (*Child, error), err error) {
	role := bus.BenchRole(bus.AnyRealm)
	if _, err := secret.LoadOrDraw(filepath.Join(c.Dir, secret.FileName)); err != nil {
		return nil, nil, err
	}
	server, err = natsd.Start(natsd.Config{Dir: filepath.Join(c.Dir, "nats"), Port: -1, Roles: append(natsconf.DefaultRoles(), role), Accounts: true})
	return server, func(role string, args ...string) (*Child, error) {
		args = append(args, "--server", server.URL(), "--user", role, "--http", "")
		return c.StartChild(append([]string{role}, args...), "NATS_PASSWORD="+server.Password(role),
			"COPPICE_ANSWERS_USER="+bus.RoleAnswers, "COPPICE_ANSWERS_PASSWORD="+server.Password(bus.RoleAnswers))
	}, err
}

// startProcesses starts the services as children of this process.
func (d *Deployment) startProcesses(ctx context.Context) error {
	server, startChild, err := d.c.StartServer()
	if err != nil {
		return err
	}
	defer func() { d.close = append(d.close, server.Shutdown) }() // last
	start := func(role string, args ...string) error {
		c, err := startChild(role, args...)
		if err != nil {
			return err
		}
		d.children = append(d.children, c)
		d.close = append(d.close, c.Stop)
		return nil
	}
	args := []string{"--data", filepath.Join(d.c.Dir, "graph"), "--secret", filepath.Join(d.c.Dir, secret.FileName)}
	if d.c.archives() { // all of it is kept
		args = append(args, "--archive", d.c.archive().String())
	}
	err = errors.Join(start(bus.RoleGraph, args...), start(bus.RoleScanner), start(bus.RoleFinalizers))
	for range d.c.Processors {
		err = errors.Join(err, start(bus.RoleProcessor, "--concurrency", strconv.Itoa(concurrency)))
	}
	if err != nil {
		return err
	}
	d.Conn = func(role string) (*nats.Conn, error) {
		nc, err := dial.Service(ctx, server.URL(), "coppice-bench", d.c.Log, server.Options(role)...)
		if err == nil {
			d.close = append([]func() error{func() error { nc.Close(); return nil }}, d.close...)
		}
		return nc, err
	}
	nc, err := dial.Service(ctx, server.URL(), "coppice-bench", d.c.Log, server.Options(Actor)...)
	if err != nil {
		return err
	}
	d.close = append([]func() error{func() error { nc.Close(); return nil }}, d.close...)
	d.Client = client.New(nc, client.WithActor(Actor))
	return d.awaitProcesses(ctx)
}

// concurrency is how many chunks a processor works on at once.
const concurrency = 4

// awaitProcesses waits until a command is answered and all processors wait for
// work.
func (d *Deployment) awaitProcesses(ctx context.Context) error {
	return poll.Until(ctx, func() (bool, error) {
		for _, c := range d.children {
			if err := c.Alive(); err != nil {
				return false, err
			}
		}
		reply, err := d.Client.Operations().Consumers(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // the consumer is not created yet
		}
		return slices.ContainsFunc(reply.GetConsumers(), func(s *client.ConsumerState) bool {
			return s.GetDurable() == bus.DurableProcessors && int(s.GetPulling()) >= d.c.Processors // one request each, while they are idle
		}), nil
	})
}

// PIDs are the processes that are measured, this one first.
func (d *Deployment) PIDs() []int {
	list := []int{os.Getpid()}
	for _, c := range d.children {
		list = append(list, c.PID())
	}
	return list
}
