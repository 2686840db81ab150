package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/run"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/finalizers"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/processor"
	"github.com/coppice-gc/coppice/services/scanner"
)

// service is what runs in a process of its own.
type service interface {
	Run(ctx context.Context) error
	Ready() error
}

type serviceFlags struct {
	realms   []string
	http     string
	profiles bool
}

func (f *serviceFlags) add(a *app, c *cobra.Command) {
	a.dial.Flags(c.Flags())
	c.Flags().StringArrayVar(&f.realms, "realm", []string{bus.DefaultRealm}, "realm; may be repeated")
	c.Flags().StringVar(&f.http, "http", "127.0.0.1:0", "address of /healthz, /readyz and /metrics; empty for none")
	c.Flags().BoolVar(&f.profiles, "pprof", false, "serve profiles under /debug/pprof/")
}

// serve connects, and runs a service until a signal comes or it fails. A server
// that is not there yet is waited for.
func (a *app) serve(ctx context.Context, name string, f serviceFlags, make func(*nats.Conn, prometheus.Registerer) (service, error)) error {
	if err := a.dial.Complete(); err != nil {
		return err
	}
	for _, r := range f.realms {
		if err := bus.CheckRealm(r); err != nil {
			return err
		}
	}
	log := a.logger().With("service", name)
	registry := admin.NewRegistry()
	var serving atomic.Pointer[service] // nil until NATS is there
	ready := func() error {
		if s := serving.Load(); s != nil {
			return (*s).Ready()
		}
		return fmt.Errorf("waiting for NATS at %s", a.dial.Server)
	}
	var g run.Group
	running, stop := context.WithCancel(ctx)
	g.Add(func() error {
		nc, err := a.dial.Service(running, "coppice-"+name, log)
		if err != nil {
			if running.Err() != nil {
				return nil
			}
			return err
		}
		defer nc.Close()
		s, err := make(nc, registry)
		if err != nil {
			return err
		}
		serving.Store(&s)
		return s.Run(running)
	}, func(error) { stop() })
	if f.http != "" {
		server, err := admin.Listen(f.http, registry, ready, f.profiles)
		if err != nil {
			stop()
			return err
		}
		log.Info("health and metrics", "url", "http://"+server.Address()+"/metrics")
		listening, stopListening := context.WithCancel(ctx)
		g.Add(func() error { return server.Run(listening) }, func(error) { stopListening() })
	}
	return g.Run()
}

func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

func (a *app) graphCommand() *cobra.Command {
	var f serviceFlags
	var data string
	var replicas int
	var ttl time.Duration
	c := &cobra.Command{
		Use:     "graph",
		GroupID: "services",
		Short:   "Run the graph service: log, state, writer, propagator",
		Long: `Graph keeps realms' objects and their ownership graph. Several processes may
serve a realm, each with a directory of its own: one of them writes, the others
follow and stand by.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.serve(c.Context(), "graph", f, func(nc *nats.Conn, r prometheus.Registerer) (service, error) {
				return graph.New(graph.Config{
					Conn: nc, Realms: f.realms, Dir: data, Replicas: replicas, LeaseTTL: ttl,
					Instance: instance(), Version: version(), Log: a.logger().With("service", "graph"), Registry: r,
				})
			})
		},
	}
	f.add(a, c)
	c.Flags().StringVar(&data, "data", "./coppice-data/graph", "directory of the state, of this process alone")
	c.Flags().IntVar(&replicas, "replicas", 1, "number of NATS servers that keep each stream")
	c.Flags().DurationVar(&ttl, "lease", lease.DefaultTTL, "time after which another may take over from a writer that is silent")
	return c
}

func (a *app) processorCommand() *cobra.Command {
	var f serviceFlags
	var concurrency int
	c := &cobra.Command{
		Use:     "processor",
		GroupID: "services",
		Short:   "Run a garbage processor; any number share the work",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.serve(c.Context(), "processor", f, func(nc *nats.Conn, r prometheus.Registerer) (service, error) {
				return processor.New(processor.Config{
					Conn: nc, Realms: f.realms, Concurrency: concurrency, Instance: instance(),
					Log: a.logger().With("service", "processor"), Registry: r,
				})
			})
		},
	}
	f.add(a, c)
	c.Flags().IntVar(&concurrency, "concurrency", 4, "chunks worked on at once")
	return c
}

func (a *app) finalizersCommand() *cobra.Command {
	var f serviceFlags
	var concurrency int
	c := &cobra.Command{
		Use:     "finalizers",
		GroupID: "services",
		Short:   "Run the built-in finalizers, orphan and foregroundDeletion; any number share the work",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.serve(c.Context(), "finalizers", f, func(nc *nats.Conn, r prometheus.Registerer) (service, error) {
				return finalizers.New(finalizers.Config{
					Conn: nc, Realms: f.realms, Concurrency: concurrency, Instance: instance(),
					Log: a.logger().With("service", "finalizers"), Registry: r,
				})
			})
		},
	}
	f.add(a, c)
	c.Flags().IntVar(&concurrency, "concurrency", 4, "chunks worked on at once, of each sort")
	return c
}

func (a *app) scannerCommand() *cobra.Command {
	var f serviceFlags
	var sc scanner.Config
	c := &cobra.Command{
		Use:     "scanner",
		GroupID: "services",
		Short:   "Run the scanner: walk all objects, re-drive what is owed",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.serve(c.Context(), "scanner", f, func(nc *nats.Conn, r prometheus.Registerer) (service, error) {
				sc.Conn, sc.Realms, sc.Log, sc.Registry = nc, f.realms, a.logger().With("service", "scanner"), r
				return scanner.New(sc)
			})
		},
	}
	f.add(a, c)
	c.Flags().DurationVar(&sc.Interval, "interval", 10*time.Minute, "time between the starts of two walks")
	c.Flags().IntVar(&sc.Rate, "rate", 20000, "objects walked in a second, at the most")
	c.Flags().DurationVar(&sc.RedriveInterval, "redrive-interval", 10*time.Second, "time between two looks at what is owed")
	c.Flags().DurationVar(&sc.RedriveAge, "redrive-age", 30*time.Second, "time for which something must have been owed to be published again")
	return c
}
