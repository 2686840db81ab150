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
	LeaseTTL  time.Duration
}

// runChild runs until the standard input ends, because the parent closed it or has ended.
func runChild(config string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	t := &trap{}
	go t.listen(os.Stdin, end)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("process", c.Name)
	if c.Port != 0 {
		return allInOne(ctx, c, t, log)
	}
	return services(ctx, c, t, log)
}

func (c *childConfig) graph(g *graph.Config, t *trap) {
	g.Instance, g.LeaseTTL, g.Failpoint = c.Name, c.LeaseTTL, t.pass
	g.State.MemTableSize = 8 << 20 // so that a crash loses a part of the state
}

// The scanner scans all the time, because it must do no harm during a cascade.
func eager(c *scanner.Config) {
	c.Interval, c.RepublishInterval, c.RepublishAge = 5*time.Second, time.Second, 2*time.Second
}

// chunksAtOnce makes a cascade last longer: a commit then has about one chunk.
const chunksAtOnce = 1

func oneByOne(c *processor.Config) { c.Concurrency = chunksAtOnce }

func allInOne(ctx context.Context, c childConfig, t *trap, log *slog.Logger) error {
	s, err := allinone.Start(ctx, allinone.Config{
		Dir: c.Dir, Port: c.Port, Log: log,
		Graph: func(g *graph.Config) { c.graph(g, t) }, Processor: oneByOne, Scanner: eager,
	})
	if err != nil {
		return err
	}
	<-s.Ended()
	return s.Stop()
}

// services runs each service on a connection of its own with the user of its role.
func services(ctx context.Context, c childConfig, t *trap, log *slog.Logger) error {
	type service interface{ Run(context.Context) error }
	answers, err := dial.Service(ctx, c.URL, "coppice-"+bus.RoleAnswers, log, nats.UserInfo(bus.RoleAnswers, c.Passwords[bus.RoleAnswers]),
		nats.CustomInboxPrefix(bus.InboxPrefix(bus.RoleAnswers)))
	if err != nil {
		return err
	}
	defer answers.Close()
	all := []struct {
		role string
		make func(*nats.Conn) (service, error)
	}{
		{bus.RoleGraph, func(nc *nats.Conn) (service, error) {
			gc := graph.Config{Secrets: testkit.Secrets(), Conn: nc, Answers: answers, Dir: c.Dir, Log: log}
			c.graph(&gc, t)
			return graph.New(gc)
		}},
		{bus.RoleProcessor, func(nc *nats.Conn) (service, error) {
			pc := processor.Config{Conn: nc, Log: log}
			oneByOne(&pc)
			return processor.New(pc)
		}},
		{bus.RoleFinalizers, func(nc *nats.Conn) (service, error) {
			return finalizers.New(finalizers.Config{Conn: nc, Log: log, Concurrency: chunksAtOnce})
		}},
		{bus.RoleScanner, func(nc *nats.Conn) (service, error) {
			sc := scanner.Config{Conn: nc, Log: log}
			eager(&sc)
			return scanner.New(sc)
		}},
	}
	if c.GraphOnly {
		all = all[:1]
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range all {
		g.Go(func() error {
			nc, err := dial.Service(ctx, c.URL, s.role, log, nats.UserInfo(s.role, c.Passwords[s.role]), nats.CustomInboxPrefix(bus.InboxPrefix(s.role)))
			if err != nil {
				return err
			}
			defer nc.Close()
			running, err := s.make(nc)
			if err != nil {
				return err
			}
			return running.Run(ctx)
		})
	}
	return g.Wait()
}

// trap kills the process when a step was passed a number of times.
type trap struct {
	mu   sync.Mutex
	step string
	left int
}

// order is an instruction for a trap; the parent sends it as a line to the standard input.
type order struct {
	Step string
	Pass int // the first pass is 1
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
		t.step, t.left = o.Step, o.Pass
		t.mu.Unlock()
	}
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

// killedAt is the line that a process prints before it kills itself.
const killedAt = "killed at "
