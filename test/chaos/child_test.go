package chaos_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/finalizers"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/processor"
	"github.com/coppice-gc/coppice/services/scanner"
)

// childEnv is the environment variable with the configuration of a child (childConfig as
// JSON). If it is set, the test binary runs as a child.
const childEnv = "COPPICE_CHAOS_CHILD"

// childConfig says which services a child runs.
type childConfig struct {
	// Name is the instance of the graph service, by which the lease names it.
	Name string
	// Dir is the data directory of the child.
	Dir string
	// Port is the port of the NATS server that the child runs in addition to all services;
	// zero if the child uses the server at URL.
	Port      int
	URL       string
	Passwords map[string]string
	// GraphOnly leaves out the processors, the finalizers and the scanner.
	GraphOnly bool
	// Roles are the services that the child runs, by the roles of their connections; all but
	// the external finalizer if there are none.
	Roles    []string
	LeaseTTL time.Duration
	// Replicas is the number of NATS servers that store each stream.
	Replicas int
	// Archive is the directory of the archive; "" for none.
	Archive string
	// Clock is how far the wall clock is ahead when the child begins.
	Clock time.Duration
	// Store is the fault of the archive when the child begins.
	Store string
	// Sabotage is what a graph service does wrong in what it sends; "" for nothing.
	Sabotage string
	// NATS is set for a child that is a NATS server of a cluster and nothing else.
	NATS *member
}

// runChild runs until the standard input ends, because the parent closed it or has ended.
func runChild(config string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	t := &trap{store: c.Store, clock: c.Clock}
	go t.listen(os.Stdin, end)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("process", c.Name)
	if c.NATS != nil {
		return c.NATS.run(ctx)
	}
	if c.Port != 0 {
		return allInOne(ctx, c, t, log)
	}
	return services(ctx, c, t, log)
}

func (c *childConfig) graph(g *graph.Config, t *trap) {
	g.Instance, g.LeaseTTL, g.Failpoint = c.Name, c.LeaseTTL, t.pass
	g.State.MemTableSize = 8 << 20 // so that a crash loses a part of the state
	g.Replicas, g.Now = c.Replicas, t.now
	if c.Replicas > 1 { // find damaged copies of the log within seconds
		g.CheckLog, g.ScrubLog = 200*time.Millisecond, 2*time.Second
	}
}

// The scanner scans all the time, because it must do no harm during a cascade.
func eager(c *scanner.Config) {
	c.Interval, c.RepublishInterval, c.RepublishAge = 5*time.Second, time.Second, 2*time.Second
}

// chunksAtOnce makes a cascade last longer: a commit then has about one chunk.
const chunksAtOnce = 1

func oneByOne(c *processor.Config) { c.Concurrency = chunksAtOnce }

func allInOne(ctx context.Context, c childConfig, t *trap, log *slog.Logger) error {
	var store archive.Store
	if c.Archive != "" {
		dir, err := dirstore.Create(c.Archive)
		if err != nil {
			return err
		}
		store = archive.Limit(dir, archive.Stall)
	}
	s, err := allinone.Start(ctx, allinone.Config{
		Dir: c.Dir, Port: c.Port, Log: log,
		Graph: func(g *graph.Config) {
			c.graph(g, t)
			if g.Archive = store; store != nil {
				g.ArchiveLimits, g.MaxClockSkew = hastyArchive, mostAhead
			}
		},
		Processor: oneByOne, Scanner: eager,
	})
	if err != nil {
		return err
	}
	<-s.Ended()
	return s.Stop()
}

// services runs each service on a connection of its own with the user of its role.
func services(ctx context.Context, c childConfig, t *trap, log *slog.Logger) error {
	if c.GraphOnly {
		c.Roles = []string{bus.RoleGraph}
	}
	if len(c.Roles) == 0 {
		c.Roles = []string{bus.RoleGraph, bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, role := range c.Roles {
		g.Go(func() error {
			nc, err := c.connect(ctx, role, log)
			if err != nil {
				return err
			}
			defer nc.Close()
			run, err := c.service(ctx, role, nc, t, log)
			if err != nil {
				return err
			}
			return run(ctx)
		})
	}
	return g.Wait()
}

// connect connects with a role.
func (c *childConfig) connect(ctx context.Context, role string, log *slog.Logger, opts ...nats.Option) (*nats.Conn, error) {
	return dial.Service(ctx, c.URL, role, log, append(opts, nats.UserInfo(role, c.Passwords[role]), nats.CustomInboxPrefix(bus.InboxPrefix(role)))...)
}

// service returns what runs the service of a role on its connection.
func (c *childConfig) service(ctx context.Context, role string, nc *nats.Conn, t *trap, log *slog.Logger) (func(context.Context) error, error) {
	type service interface{ Run(context.Context) error }
	var s service
	var err error
	switch role {
	case bus.RoleGraph:
		return c.graphService(ctx, nc, t, log)
	case bus.RoleProcessor:
		pc := processor.Config{Conn: nc, Log: log}
		oneByOne(&pc)
		s, err = processor.New(pc)
	case bus.RoleFinalizers:
		s, err = finalizers.New(finalizers.Config{Conn: nc, Log: log, Concurrency: chunksAtOnce})
	case bus.RoleScanner:
		sc := scanner.Config{Conn: nc, Log: log}
		eager(&sc)
		s, err = scanner.New(sc)
	case bus.RoleFinalizer:
		return func(ctx context.Context) error {
			return client.New(nc, client.WithActor(role)).RunFinalizer(ctx, bus.ExampleFinalizer, func(context.Context, *client.Call) error { return nil })
		}, nil
	default:
		err = fmt.Errorf("no service has the role %q", role)
	}
	if err != nil {
		return nil, err
	}
	return s.Run, nil
}

// graphService returns what runs the graph service, with a connection for its answers.
func (c *childConfig) graphService(ctx context.Context, nc *nats.Conn, t *trap, log *slog.Logger) (func(context.Context) error, error) {
	var opts []nats.Option
	if c.Sabotage != "" {
		opts = append(opts, nats.SetCustomDialer(dialer(c.Sabotage)))
	}
	answers, err := c.connect(ctx, bus.RoleAnswers, log, opts...)
	if err != nil {
		return nil, err
	}
	gc := graph.Config{Secrets: testkit.Secrets(), Conn: nc, Answers: answers, Dir: c.Dir, Log: log}
	c.graph(&gc, t)
	if c.Archive != "" {
		store, err := dirstore.Create(c.Archive)
		if err != nil {
			return nil, err
		}
		gc.Archive, gc.ArchiveLimits = archive.Limit(faulty(store, t), archive.Stall), eagerArchive
	}
	s, err := graph.New(gc)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer answers.Close()
		go reportReady(ctx, s, readyFile(c.Dir))
		return s.Run(ctx)
	}, nil
}

// readyFile is the file in which a graph service says whether it is ready.
func readyFile(dir string) string { return dir + ".ready" }

// readyOf is what a process writes into the file when it is ready.
func readyOf(pid int) string { return fmt.Sprintf("%d is ready", pid) }

// reportReady writes whether a graph service is ready, or for what it waits, until ctx ends.
func reportReady(ctx context.Context, s *graph.Service, file string) {
	said := ""
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		now := readyOf(os.Getpid())
		if err := s.Ready(); err != nil {
			now = err.Error()
		}
		if now != said {
			if err := os.WriteFile(file, []byte(now), 0o600); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			said = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// trap kills the process when a step was passed a number of times, and has the faults of its
// clock and of its archive.
type trap struct {
	mu    sync.Mutex
	step  string
	left  int
	clock time.Duration // how far the wall clock is ahead
	store string
}

// order is an instruction for a trap; the parent sends it as a line to the standard input.
// It replaces the one before.
type order struct {
	Step string
	Pass int // the first pass is 1
	// Clock is how far the wall clock of the process is ahead from now on.
	Clock time.Duration
	// Store is the fault of the archive: storeFails, storeDamages, or "" for none.
	Store string
}

// listen receives orders until the standard input ends, and then stops the services.
func (t *trap) listen(r io.Reader, end func()) {
	defer end()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		t.mu.Lock()
		t.step, t.left, t.clock, t.store = o.Step, o.Pass, o.Clock, o.Store
		_, _ = fmt.Fprintln(os.Stdout, armed)
		t.mu.Unlock()
	}
}

// now is the wall clock.
func (t *trap) now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Add(t.clock)
}

// pass is the failpoint.
func (t *trap) pass(step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if step != t.step {
		return
	}
	if t.left--; t.left > 0 {
		return
	}
	_, _ = fmt.Fprintln(os.Stdout, killedAt+step)
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // wait for the signal with the lock held, so that no other step is passed
}

// armed is the line that a process prints when it has read an order.
const armed = "armed"

// killedAt is the line that a process prints before it kills itself.
const killedAt = "killed at "
