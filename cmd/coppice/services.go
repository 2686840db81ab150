package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/run"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/services/finalizers"
	"github.com/coppice-gc/coppice/services/graph"
	graphclock "github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/processor"
	"github.com/coppice-gc/coppice/services/scanner"
)

// service is a service that runs as a process of its own.
type service interface {
	Run(ctx context.Context) error
	Ready() error
}

// serve connects, and runs a service until it receives a signal or the service fails.
// It waits for a NATS server that is not reachable yet.
func serve(ctx context.Context, a *cli.App, name string, f serviceFlags, make func(context.Context, *nats.Conn, prometheus.Registerer) (service, error)) error {
	if err := a.Dial.Complete(); err != nil {
		return err
	}
	a.Dial.Actor = name // the name of a service is that of its role
	for _, r := range f.realms {
		if err := bus.CheckRealm(r); err != nil {
			return err
		}
	}
	log := a.Logger().With("service", name)
	registry := admin.NewRegistry()
	admin.RegisterBuild(registry, version())
	log.Info("start", "version", version())
	defer log.Info("stopped")
	var serving atomic.Pointer[service] // nil until NATS is there
	var waits atomic.Pointer[error]     // why it is not
	a.Dial.Waits = func(err error) { waits.Store(&err) }
	ready := func() error {
		if s := serving.Load(); s != nil {
			return (*s).Ready()
		}
		if err := waits.Load(); err != nil {
			return fmt.Errorf("waiting for NATS at %s: %w", dial.Redacted(a.Dial.Server), *err)
		}
		return fmt.Errorf("waiting for NATS at %s", dial.Redacted(a.Dial.Server))
	}
	status := func() string {
		if s := serving.Load(); s != nil {
			if s, ok := (*s).(interface{ Status() string }); ok {
				return s.Status()
			}
		}
		return ""
	}
	var g run.Group
	running, stop := context.WithCancel(ctx)
	go reportReady(running, log, ready)
	g.Add(func() error {
		nc, err := a.Dial.Service(running, "coppice-"+name, log)
		if err != nil {
			if running.Err() != nil {
				return nil
			}
			return err
		}
		defer nc.Close()
		admin.RegisterConnection(registry, name, nc)
		s, err := make(running, nc, registry)
		if err != nil {
			return err
		}
		serving.Store(&s)
		return s.Run(running)
	}, func(error) { stop() })
	server, err := f.http.listen(registry, ready, status, f.profiles)
	if err != nil {
		stop()
		return err
	}
	if server != nil {
		attributes := []any{"url", "http://" + server.Address() + "/metrics"}
		if taken := server.Taken(); taken != "" {
			attributes = append(attributes, "in use", taken)
		}
		log.Info("health and metrics", attributes...)
		listening, stopListening := context.WithCancel(ctx)
		g.Add(func() error { return server.Run(listening) }, func(error) { stopListening() })
	}
	return g.Run()
}

// closing closes its connections when its service has ended.
type closing struct {
	*graph.Service
	requests, answers *nats.Conn
}

// Run also answers the requests that NATS had delivered when the service stopped: each is
// refused as retryable, and its client need not wait for its timeout.
func (c closing) Run(ctx context.Context) error {
	defer c.answers.Close()
	err := c.Service.Run(ctx)
	if c.requests.Drain() == nil {
		drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		_ = poll.Until(drained, func() (bool, error) { return c.requests.IsClosed(), nil })
	}
	return err
}

// drainTimeout is the longest time for which a graph service that has stopped answers
// requests.
const drainTimeout = time.Second

// reportReady logs when a service becomes ready, and when it is no longer ready, with
// the reason; each change once.
func reportReady(ctx context.Context, log *slog.Logger, ready func() error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	was := false
	for {
		switch err := ready(); {
		case err == nil && !was:
			log.Info("ready")
			was = true
		case err != nil && was:
			log.Warn("not ready", "reason", err)
			was = false
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func graphCommand(a *cli.App) *cobra.Command {
	f := serviceFlags{about: realmsOfGraph, port: graphPort}
	var data, file string
	var usersFile string
	var replicas int
	var ttl, skew time.Duration
	var answers answersFlags
	var acceptLoss, restored realmSequences
	var archived archiveFlag
	var past historyFlag
	var accountKeys accountKeysFlag
	c := &cobra.Command{
		Use:     "graph",
		GroupID: "services",
		Short:   "Run the graph service: log, state, writer, propagator",
		Long: `Run the graph service, which stores the objects of realms and their ownership graph.
Several processes may serve a realm, each with a directory of its own: one of them is
the writer, the others are replicas that can take over.

It has two connections, each with a NATS user of its own: one writes the log and owns
streams and leases, the other replies to requests. Clients choose the subjects of
replies, so the second may publish to inboxes only.

All graph services share the installation's secret, with which they authenticate the
commits in the log: generate it with 'coppice secret new'. A process without --secret
and $COPPICE_SECRET generates one in its directory; another process can serve the same
realm only with a copy of it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(positive(duration{"--max-clock-skew", skew}, duration{"--lease", ttl}), cli.CheckReplicas(replicas)); err != nil {
				return cli.NewUsageError(c, err)
			}
			losses, err := acceptLoss.realms()
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			restoredLogs, err := restored.realms()
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			location, archiving, err := archived.location()
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			secrets, err := cli.LoadSecrets(file, data)
			if err != nil {
				return err
			}
			also, err := answers.of(&a.Dial)
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			return serve(c.Context(), a, "graph", f, func(ctx context.Context, nc *nats.Conn, r prometheus.Registerer) (service, error) {
				actors, err := accountKeys.open(ctx, a.Logger().With("service", "graph"))
				if err != nil {
					return nil, err
				}
				answering, err := also.Service(ctx, "coppice-"+bus.RoleAnswers, a.Logger().With("service", "graph"))
				if err != nil {
					return nil, err
				}
				admin.RegisterConnection(r, bus.RoleAnswers, answering)
				gc := graph.Config{
					Conn: nc, Answers: answering, Actors: actors, Secrets: secrets, Realms: f.realms, Dir: data, Replicas: replicas, LeaseTTL: ttl, MaxClockSkew: skew, AcceptLoss: losses, Restored: restoredLogs,
					Instance: cli.Instance(), Version: version(), Log: a.Logger().With("service", "graph"), Registry: r, TracerProvider: a.Traces,
					Past: past.limits(),
				}
				if archiving {
					gc.Archive = openArchive(location, nc, replicas)
				}
				if usersFile != "" {
					if gc.Access, err = followUsers(ctx, usersFile, gc.Log, r); err != nil {
						answering.Close()
						return nil, err
					}
				}
				s, err := graph.New(gc)
				if err != nil {
					answering.Close()
					return nil, err
				}
				return closing{s, nc, answering}, nil
			})
		},
	}
	f.add(a, c)
	answers.add(c)
	acceptLoss.addAcceptLoss(c)
	restored.addRestored(c)
	archived.add(c, "default: none")
	past.add(c)
	c.Flags().StringVar(&usersFile, "users-file", "", "file with the users and what each may do, that of the NATS server's configuration; it is read again when it changes")
	accountKeys.add(c)
	c.Flags().StringVar(&data, "data", "./coppice-data/graph", "directory of the state; no other process may use it")
	c.Flags().StringVar(&file, "secret", "", "file of the installation's secret, of mode 0600 ($COPPICE_SECRET holds the secret itself; default: coppice.secret in --data)")
	c.Flags().IntVar(&replicas, "replicas", 1, "number of NATS servers that keep each stream")
	c.Flags().DurationVar(&ttl, "lease", lease.DefaultTTL, "time after which a replica may take over from a writer that does not renew its lease")
	c.Flags().DurationVar(&skew, "max-clock-skew", graphclock.DefaultLimit, "how far the clock of this machine may be from the NATS server's; beyond it this process does not commit")
	return c
}

func processorCommand(a *cli.App) *cobra.Command {
	f := serviceFlags{about: realmsOfWorkers, port: processorPort}
	var concurrency int
	c := &cobra.Command{
		Use:     "processor",
		GroupID: "services",
		Short:   "Run a garbage processor; any number share the work",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := atLeastOne(number{"--concurrency", concurrency}); err != nil {
				return cli.NewUsageError(c, err)
			}
			return serve(c.Context(), a, "processor", f, func(_ context.Context, nc *nats.Conn, r prometheus.Registerer) (service, error) {
				return processor.New(processor.Config{
					Conn: nc, Realms: f.realms, Concurrency: concurrency, Instance: cli.Instance(),
					Log: a.Logger().With("service", "processor"), Registry: r, TracerProvider: a.Traces,
				})
			})
		},
	}
	f.add(a, c)
	c.Flags().IntVar(&concurrency, "concurrency", 4, "maximum number of chunks in progress")
	return c
}

func finalizersCommand(a *cli.App) *cobra.Command {
	f := serviceFlags{about: realmsOfWorkers, port: finalizersPort}
	var concurrency int
	c := &cobra.Command{
		Use:     "finalizers",
		GroupID: "services",
		Short:   "Run the built-in finalizers; any number share the work",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := atLeastOne(number{"--concurrency", concurrency}); err != nil {
				return cli.NewUsageError(c, err)
			}
			return serve(c.Context(), a, "finalizers", f, func(_ context.Context, nc *nats.Conn, r prometheus.Registerer) (service, error) {
				return finalizers.New(finalizers.Config{
					Conn: nc, Realms: f.realms, Concurrency: concurrency, Instance: cli.Instance(),
					Log: a.Logger().With("service", "finalizers"), Registry: r, TracerProvider: a.Traces,
				})
			})
		},
	}
	f.add(a, c)
	c.Flags().IntVar(&concurrency, "concurrency", 4, "maximum number of chunks in progress, for each type of work")
	return c
}

func scannerCommand(a *cli.App) *cobra.Command {
	f := serviceFlags{about: realmsOfWorkers, port: scannerPort}
	var sc scanner.Config
	c := &cobra.Command{
		Use:     "scanner",
		GroupID: "services",
		Short:   "Run the scanner: walk all objects, republish pending work, delete what has expired",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkScanner(&sc); err != nil {
				return cli.NewUsageError(c, err)
			}
			return serve(c.Context(), a, "scanner", f, func(_ context.Context, nc *nats.Conn, r prometheus.Registerer) (service, error) {
				sc.Conn, sc.Realms, sc.Log, sc.Registry = nc, f.realms, a.Logger().With("service", "scanner"), r
				return scanner.New(sc)
			})
		},
	}
	f.add(a, c)
	c.Flags().DurationVar(&sc.Interval, "interval", 10*time.Minute, "time between the starts of two walks")
	c.Flags().IntVar(&sc.Rate, "rate", 20000, "maximum number of objects walked in a second")
	c.Flags().DurationVar(&sc.RepublishInterval, "republish-interval", 10*time.Second, "time between two checks of pending work")
	c.Flags().DurationVar(&sc.ExpiryInterval, "expiry-interval", 5*time.Second, "time between two searches for objects that have expired")
	c.Flags().DurationVar(&sc.PolicyInterval, "policy-interval", time.Minute, "time between two evaluations of all expiry policies")
	c.Flags().DurationVar(&sc.RepublishAge, "republish-age", 30*time.Second, "how long work must have been pending before it is published again")
	return c
}

// checkScanner refuses rates and times with which the scanner cannot work.
func checkScanner(c *scanner.Config) error {
	return cmp.Or(atLeastOne(number{"--rate", c.Rate}), positive(
		duration{"--interval", c.Interval}, duration{"--republish-interval", c.RepublishInterval}, duration{"--republish-age", c.RepublishAge},
		duration{"--expiry-interval", c.ExpiryInterval}, duration{"--policy-interval", c.PolicyInterval},
	))
}
