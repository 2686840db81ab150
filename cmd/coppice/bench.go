package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
)

// benchmark is a benchmark as a command.
type benchmark struct {
	name, short, long string
	// flags adds its own flags, and returns how to make it of them.
	flags func(f *pflag.FlagSet) func() (bench.Benchmark, error)
	// alone says that it starts what it measures, always.
	alone bool
}

// benchmarks are all of them. Each takes less than a minute as it is.
var benchmarks = []benchmark{
	{
		name: "cascade", short: "Delete an object that many belong to",
		long: `Cascade makes an object with many that belong to it, deletes it, and takes the
time until a fresh list shows only the survivors and all work is acknowledged.
One in a hundred survives by a second owner, one in a thousand is blocked by an
external finalizer, which is answered.

Wide is one owner, tree three levels below it, chain each below the one before,
random each below a random one before.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Cascade
			var policy string
			f.IntVar(&b.Objects, "objects", 100000, "number of objects that go with it, about")
			f.StringVar(&b.Shape, "shape", "wide", "wide, tree, chain or random")
			f.StringVar(&policy, "policy", "background", "background, foreground or orphan")
			return func() (bench.Benchmark, error) {
				var ok bool
				if b.Policy, ok = map[string]string{"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}[policy]; !ok {
					return nil, fmt.Errorf("--policy %q: choose background, foreground or orphan", policy)
				}
				return b, b.Check()
			}
		},
	},
	{
		name: "create", short: "Make objects",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Create
			f.IntVar(&b.Objects, "objects", 100000, "number of objects")
			f.IntVar(&b.Callers, "callers", 4, "number of callers, each with one call at a time")
			f.IntVar(&b.Batch, "batch", 500, "number of objects in a call")
			f.BoolVar(&b.Unbatched, "without-batching", false, "send each call in a request of its own; without it calls with one object go together where many are under way")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--objects", b.Objects}, number{"--callers", b.Callers}, number{"--batch", b.Batch})
			}
		},
	},
	{
		name: "update", short: "Update objects",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Update
			f.IntVar(&b.Objects, "objects", 100000, "number of objects")
			f.IntVar(&b.Callers, "callers", 4, "number of callers, each with one call at a time")
			f.IntVar(&b.Batch, "batch", 500, "number of objects in a call")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--objects", b.Objects}, number{"--callers", b.Callers}, number{"--batch", b.Batch})
			}
		},
	},
	{
		name: "latency", short: "Make one object after the other, and after each sync as much to the same disk",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Latency
			f.IntVar(&b.Objects, "objects", 5000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "list", short: "List objects",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.List
			f.IntVar(&b.Objects, "objects", 200000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "watch", short: "Tell watchers of objects as they are made",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Watch
			f.IntVar(&b.Objects, "objects", 50000, "number of objects")
			f.IntVar(&b.Watchers, "watchers", 4, "number of watchers, each of which is told of each object")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--objects", b.Objects}, number{"--watchers", b.Watchers})
			}
		},
	},
	{
		name: "scan", short: "Walk through all objects, as the scanner does", alone: true,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Scan
			f.IntVar(&b.Objects, "objects", 200000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "replay", short: "Fold a log into an empty state", alone: true,
		long: `Replay makes a log, one half of it objects and the other half their removal by a
cascade, or only objects, which stay, and folds it into an empty state. What it
counts as objects are events.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Replay
			f.IntVar(&b.Events, "events", 200000, "number of events in the log, about")
			f.BoolVar(&b.Live, "live", false, "have objects that stay, and no removals")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--events", b.Events}) }
		},
	},
	{
		name: "restart", short: "Start again after a stop, and after a kill", alone: true,
		long: `Restart runs everything in a process of its own, makes objects, stops it, starts
it, kills it, and starts it again: each time until a command is answered, the
recovery of the NATS server included.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Restart
			f.IntVar(&b.Objects, "objects", 200000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "memory", short: "Measure the memory of a realm with many objects", alone: true,
		long: `Memory runs everything in a process of its own, makes objects and lists them. It
tells the largest resident memory of that process.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Memory
			f.IntVar(&b.Objects, "objects", 500000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "realms", short: "Start many realms in one process, and measure it at rest", alone: true,
		long: `Realms runs everything in a process of its own with many empty realms. It tells how
long it takes until all are ready, and what the process uses while nothing happens: the
share of a core, and resident memory. What it counts as objects are realms.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Realms
			f.IntVar(&b.Realms, "realms", 100, "number of realms")
			f.DurationVar(&b.Idle, "idle", 30*time.Second, "time for which it is measured while nothing happens")
			return func() (bench.Benchmark, error) {
				if b.Idle <= 0 {
					return nil, fmt.Errorf("--idle %v: more than 0 is needed", b.Idle)
				}
				return b, atLeastOne(number{"--realms", b.Realms})
			}
		},
	},
}

// number is the value of a flag.
type number struct {
	flag  string
	value int
}

func atLeastOne(numbers ...number) error {
	for _, n := range numbers {
		if n.value < 1 {
			return fmt.Errorf("%s %d: at least 1 is needed", n.flag, n.value)
		}
	}
	return nil
}

// benchFlags are those of all benchmarks.
type benchFlags struct {
	output     string
	processors int
	processes  bool
	dir        string
	profile    string
}

func (a *app) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "bench",
		GroupID: "operate",
		Short:   "Measure this machine, or a running deployment",
		Long: `Bench measures Coppice by its ordinary path, and checks what came of it: objects
of about 400 bytes with random names, two labels and one owner.

Without --server it runs everything here, in a temporary directory, with every
commit synced to disk before it is acknowledged. With --server connect as the user
that 'coppice nats-config --bench' adds.`,
	}
	for _, b := range benchmarks {
		c.AddCommand(a.benchmarkCommand(b))
	}
	return c
}

func (a *app) benchmarkCommand(b benchmark) *cobra.Command {
	var f benchFlags
	var make func() (bench.Benchmark, error)
	c := &cobra.Command{
		Use:   b.name,
		Short: b.short,
		Long:  b.long,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			run, err := make()
			if err == nil && f.output != "table" && f.output != "json" {
				err = fmt.Errorf("--output %q: choose table or json", f.output)
			}
			if err == nil {
				err = atLeastOne(number{"--processors", f.processors})
			}
			if err != nil {
				return a.usage(c, err)
			}
			return a.bench(c.Context(), f, run)
		},
	}
	if !b.alone {
		a.clientFlags(c)
		c.Flags().IntVar(&f.processors, "processors", 1, "number of garbage processors, without --server")
		c.Flags().BoolVar(&f.processes, "processes", false, "run each service as a process of its own, without --server")
	} else {
		f.processors = 1
	}
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	c.Flags().StringVar(&f.dir, "dir", "", "where to make the temporary directory, without --server")
	c.Flags().StringVar(&f.profile, "profile", "", "write profiles of what this process does while it is measured to a directory: cpu, allocs, block, mutex")
	make = b.flags(c.Flags())
	return c
}

// bench runs a benchmark.
func (a *app) bench(ctx context.Context, f benchFlags, run bench.Benchmark) (err error) {
	d, err := a.benchDeployment(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	r, err := run.Run(ctx, d)
	if err != nil {
		return err
	}
	a.clearLine()
	if f.output == "json" {
		return json.NewEncoder(a.stdout).Encode(r)
	}
	return r.Table(a.stdout)
}

func (a *app) benchDeployment(ctx context.Context, f benchFlags) (*bench.Deployment, error) {
	config := bench.Config{
		Processors: f.processors, Processes: f.processes, Version: version(), Log: a.quietLogger(), Progress: a.benchProgress(),
		Measuring: func() (func() error, error) { return startProfiles(f.profile) },
	}
	if a.dial.Server != "" || a.dial.Context != "" {
		c, nc, err := a.client()
		if err != nil {
			return nil, err
		}
		d := bench.Elsewhere(c, config)
		d.OnClose(func() error { nc.Close(); return nil })
		return d, nil
	}
	var err error
	if config.Dir, err = os.MkdirTemp(f.dir, "coppice-bench-"); err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(config.Dir) }
	d, err := bench.Deploy(ctx, config)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	d.OnClose(remove)
	return d, nil
}

// benchProgress draws a bar on a terminal, and nothing elsewhere.
func (a *app) benchProgress() bench.Progress {
	if !isTerminal(a.stderr) {
		return nil
	}
	var mu sync.Mutex
	var last time.Time
	return func(what string, done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < 100*time.Millisecond && done < total {
			return
		}
		last = time.Now()
		const width = 40
		full := width * done / max(1, total)
		_, _ = fmt.Fprintf(a.stderr, "\r%-24.24s [%s%s] %3d%%", what, strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*done/max(1, total))
	}
}

// clearLine takes the bar away.
func (a *app) clearLine() {
	if isTerminal(a.stderr) {
		_, _ = fmt.Fprint(a.stderr, "\r\x1b[K")
	}
}
