package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// benchmark describes the subcommand of a benchmark.
type benchmark struct {
	name, short, long string
	// flags adds the benchmark's own flags, and returns a function that builds the
	// benchmark from them.
	flags func(f *pflag.FlagSet) func() (bench.Benchmark, error)
	// alone is true if the benchmark always starts its services itself and takes no --server.
	alone bool
	// wholeLog is true if the benchmark reads its whole log from the stream: it is not archived, and so not cut.
	wholeLog bool
}

// benchmarks are all benchmarks. Each takes less than a minute with its defaults.
var benchmarks = []benchmark{
	{
		name: "cascade", short: "Measure the deletion of an object with many dependents",
		long: `Create an object with many dependents, delete it, and measure the time until a
fresh list shows only the survivors and all work is acknowledged. One dependent
in a hundred survives because of a second owner. One in a thousand is blocked by
an external finalizer, which the benchmark runs.

Shapes: in "wide" all dependents have the same owner; "tree" has three levels
below the root; in "chain" each object owns the next; in "random" the owner of
each object is a random earlier one.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Cascade
			var policy string
			f.IntVar(&b.Objects, "objects", 100000, "approximate number of dependents")
			f.StringVar(&b.Shape, "shape", "wide", "wide, tree, chain or random")
			f.StringVar(&policy, "policy", "background", "background, foreground or orphan")
			f.BoolVar(&b.Safe, "safe", false, "give the realm a brake that is not reached, and protect the survivors instead of giving them a second owner")
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
		name: "create", short: "Measure the creation of objects",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Create
			f.IntVar(&b.Objects, "objects", 100000, "number of objects")
			f.IntVar(&b.Callers, "callers", 4, "number of callers, each with one call at a time")
			f.IntVar(&b.Batch, "batch", 500, "number of objects in a call")
			f.BoolVar(&b.Unbatched, "without-batching", false, "send each call as its own request; by default the client coalesces concurrent calls with one object")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--objects", b.Objects}, number{"--callers", b.Callers}, number{"--batch", b.Batch})
			}
		},
	},
	{
		name: "update", short: "Measure updates of objects",
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
		name: "apply", short: "Measure apply: of new objects, of the same manifests, and of changed ones",
		long: `Apply manifests that create objects, the same manifests again, and then changed ones.
The result is the last of these, and has the rates of the others.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Apply
			f.IntVar(&b.Objects, "objects", 100000, "number of objects")
			f.IntVar(&b.Callers, "callers", 4, "number of callers, each with one call at a time")
			f.IntVar(&b.Batch, "batch", 500, "number of objects in a call")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--objects", b.Objects}, number{"--callers", b.Callers}, number{"--batch", b.Batch})
			}
		},
	},
	{
		name: "latency", short: "Measure the creation of one object at a time, next to bare NATS and bare disk syncs",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Latency
			f.IntVar(&b.Objects, "objects", 5000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "list", short: "Measure a list of objects, page by page",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.List
			f.IntVar(&b.Objects, "objects", 200000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "watch", short: "Measure the delay from a creation to its event in a watch",
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Watch
			f.IntVar(&b.Objects, "objects", 50000, "number of objects")
			f.IntVar(&b.Watchers, "watchers", 4, "number of watchers, each of which receives every event")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--objects", b.Objects}, number{"--watchers", b.Watchers})
			}
		},
	},
	{
		name: "scan", short: "Measure the scanner's walk over all objects", alone: true,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Scan
			f.IntVar(&b.Objects, "objects", 200000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "references", short: "Measure what other clients wait for objects with many owner references or finalizers", alone: true,
		long: `Create objects with many owner references to owners that do not exist, which the
collector deletes at once. Meanwhile another client creates one object after the other. With
--finalizers the objects have finalizers in place of references, and are deleted, and the
other client deletes one owner of one object after the other.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.References
			f.IntVar(&b.Objects, "objects", 200, "number of objects")
			f.IntVar(&b.References, "references", 1000, "number of owner references, or of finalizers, of each object")
			f.BoolVar(&b.Finalizers, "finalizers", false, "give the objects finalizers, and delete them")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--objects", b.Objects}, number{"--references", b.References})
			}
		},
	},
	{
		name: "replay", short: "Measure the replay of a log into an empty state", alone: true, wholeLog: true,
		long: `Write a log, half of it creations and half the removals of a cascade (or only
creations, with --live), and measure its replay into an empty state. The result
counts events as objects.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Replay
			f.IntVar(&b.Events, "events", 200000, "approximate number of events in the log")
			f.BoolVar(&b.Live, "live", false, "write only creations, no removals")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--events", b.Events}) }
		},
	},
	{
		name: "bootstrap", short: "Measure the start of a replica from a snapshot, next to a replay of the log", alone: true, wholeLog: true,
		long: `Create objects and update each once, write a snapshot of the state, and create one object
more for every 100. Then measure three starts of a replica: of an empty one by a replay
of the log, of an empty one from the snapshot and the commits since, and of one
that ends before the updates, from the snapshot too. The result is the second of them, and
counts all events of the log as objects.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Bootstrap
			f.IntVar(&b.Objects, "objects", 100000, "number of objects")
			f.BoolVar(&b.Created, "created", false, "leave out the updates")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "history", short: "Measure reads of the past: of a state that has to be built, and of one that is",
		long: `Create objects, and one more for every 100, twice. Then read an object as it was before
these, which waits until the state is built from the log; read it 500 times again;
and read one between the two additions, whose state is built from the first one. The
result is the first of them, and has the latency of the second.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.History
			f.IntVar(&b.Objects, "objects", 100000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "restart", short: "Measure restarts after a stop and after a kill", alone: true,
		long: `Start all services in one process, create objects, stop it, start it, kill it,
and start it again. Each time is measured until a command is answered; it
includes the recovery of the NATS server.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Restart
			f.IntVar(&b.Objects, "objects", 200000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "failover", short: "Measure how long no command is answered when another graph service takes over", alone: true,
		long: `Start two graph services, and create objects one by one while the writer is killed,
and while it is stopped, several times each. A gap is the longest time between two
replies. The result has the gaps; its time is the longest after a kill.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Failover
			f.IntVar(&b.Rounds, "rounds", 3, "how often the writer is killed, and how often it is stopped")
			f.IntVar(&b.Objects, "objects", 10000, "number of objects that exist before")
			f.DurationVar(&b.Lease, "lease", 5*time.Second, "as in coppice graph")
			return func() (bench.Benchmark, error) {
				return b, cmp.Or(atLeastOne(number{"--rounds", b.Rounds}, number{"--objects", b.Objects}), positive(duration{"--lease", b.Lease}))
			}
		},
	},
	{
		name: "archive", short: "Measure what an archive costs the writer", alone: true,
		long: `Create objects in realms without an archive and with one, in turn, and delete as many by a
wide cascade. The archive gets segments, and snapshots that are verified, meanwhile. The log
stays within its retention. The result has the rates with an archive, and their ratios to
those without one.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Archive
			f.IntVar(&b.Rounds, "rounds", 3, "how often each of the two is measured")
			f.IntVar(&b.Objects, "objects", 200000, "number of objects of each")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--rounds", b.Rounds}, number{"--objects", b.Objects})
			}
		},
	},
	{
		name: "retention", short: "Check that a realm that is written at full speed stays on a disk of known size", alone: true,
		long: `Create, update and delete objects at full speed, with a bounded log and a bounded archive.
All directories together must stay below 2.5 times the two bounds. Then verify the state, read
the history of an object that was deleted in the oldest commits of the archive, and start
an empty replica from the archive, which must have the same content.`,
		flags: retentionFlags,
	},
	{
		name: "cluster", short: "Measure a cluster of three NATS servers, next to one server", alone: true,
		long: `Start all services in one process, with one NATS server and with a cluster of three
that stores each stream three times, in turn. On each, 64 callers create objects,
and an object with as many dependents is deleted. The servers share the cores and the
disk of this machine. The result has the rate of creations on the cluster, the rates of
the cascades, and the ratios to one server.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Cluster
			f.IntVar(&b.Rounds, "rounds", 3, "how often each of the two is measured")
			f.IntVar(&b.Objects, "objects", 20000, "number of objects that are created, and of dependents")
			return func() (bench.Benchmark, error) {
				return b, atLeastOne(number{"--rounds", b.Rounds}, number{"--objects", b.Objects})
			}
		},
	},
	{
		name: "memory", short: "Measure the memory of a realm with many objects", alone: true,
		long: `Start all services in one process, create objects and list them. The result has
the largest resident memory of that process.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Memory
			f.IntVar(&b.Objects, "objects", 500000, "number of objects")
			return func() (bench.Benchmark, error) { return b, atLeastOne(number{"--objects", b.Objects}) }
		},
	},
	{
		name: "realms", short: "Measure one process that serves many realms, at start and idle", alone: true,
		long: `Start all services in one process with many empty realms. The result has the time
until all are ready, and the share of a core and the resident memory that the idle
process uses. It counts realms as objects.`,
		flags: func(f *pflag.FlagSet) func() (bench.Benchmark, error) {
			var b bench.Realms
			f.IntVar(&b.Realms, "realms", 100, "number of realms")
			f.DurationVar(&b.Idle, "idle", 30*time.Second, "how long to measure the idle process")
			return func() (bench.Benchmark, error) {
				return b, cmp.Or(atLeastOne(number{"--realms", b.Realms}), positive(duration{"--idle", b.Idle}))
			}
		},
	},
}

// benchServer says in the help texts what is measured.
const benchServer = `Without a server all services run here, in a temporary directory. Every commit is
synced to disk before it is acknowledged, and the log is archived as 'coppice up' does.

With --server or --context the services of that realm are measured; $NATS_URL and
$NATS_CONTEXT are not enough. Each run creates objects in a new namespace,
bench-ID. What the benchmark does not delete remains there: 'coppice delete all --all
-n bench-ID' deletes it. Connect as the user that 'coppice nats-config --bench' adds.`

// benchFlags are the flags that all benchmarks have.
type benchFlags struct {
	output     string
	elsewhere  bool                // --server or --context is given
	archive    lifecycle.Retention // none for no archive
	processors int
	processes  bool
	dir        string
	profile    string
}

func benchCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "bench",
		GroupID: "operate",
		Short:   "Measure this machine, or a running deployment",
		Long: `Measure Coppice end to end, and check the outcome. Objects have about 400 bytes,
random names, two labels and one owner.

` + benchServer,
	}
	for _, b := range benchmarks {
		c.AddCommand(benchmarkCommand(a, b))
	}
	return c
}

func benchmarkCommand(a *cli.App, b benchmark) *cobra.Command {
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
				return cli.NewUsageError(c, err)
			}
			f.elsewhere = c.Flags().Changed("server") || c.Flags().Changed("context")
			return runBench(c.Context(), a, f, run)
		},
	}
	if !b.alone {
		a.ClientFlags(c)
		c.Flags().IntVar(&f.processors, "processors", 1, "number of garbage processors, without --server")
		c.Flags().BoolVar(&f.processes, "processes", false, "run each service as a process of its own, without --server")
	} else {
		f.processors = 1
	}
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	c.Flags().StringVar(&f.dir, "dir", "", "directory in which to create the temporary directory, without --server")
	c.Flags().StringVar(&f.profile, "profile", "", "directory to write profiles of this process to, while it is measured: cpu, allocs, block, mutex")
	if !b.alone {
		c.Long = cmp.Or(b.long, b.short+".") + "\n\n" + benchServer
	}
	if !b.wholeLog {
		f.archive = archiveOfUp
	}
	make = b.flags(c.Flags())
	return c
}

// runBench runs a benchmark.
func runBench(ctx context.Context, a *cli.App, f benchFlags, run bench.Benchmark) (err error) {
	d, err := benchDeployment(ctx, a, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	r, err := run.Run(ctx, d)
	if err != nil {
		return err
	}
	clearLine(a)
	if f.output == "json" {
		return json.NewEncoder(a.Stdout).Encode(r)
	}
	return r.Table(a.Stdout)
}

func benchDeployment(ctx context.Context, a *cli.App, f benchFlags) (*bench.Deployment, error) {
	config := bench.Config{
		Processors: f.processors, Processes: f.processes, Version: version(), Log: a.QuietLogger(), Progress: benchProgress(a),
		Archive: f.archive, Measuring: func() (func() error, error) { return startProfiles(f.profile) },
	}
	if f.elsewhere {
		c, nc, err := a.NewClient(ctx)
		if err != nil {
			return nil, err
		}
		d := bench.Elsewhere(c, config)
		d.OnClose(func() error { nc.Close(); return nil })
		return d, nil
	}
	dir, err := os.MkdirTemp(f.dir, "coppice-bench-")
	if err == nil {
		config.Dir, err = filepath.Abs(dir) // for the URL of the archive
	}
	if err != nil {
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

// benchProgress returns a Progress that draws a bar if stderr is a terminal, nil if
// it is not.
func benchProgress(a *cli.App) bench.Progress {
	if !cli.IsTerminal(a.Stderr) {
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
		_, _ = fmt.Fprintf(a.Stderr, "\r%-24.24s [%s%s] %3d%%", what, strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*done/max(1, total))
	}
}

// clearLine removes the bar.
func clearLine(a *cli.App) {
	if cli.IsTerminal(a.Stderr) {
		_, _ = fmt.Fprint(a.Stderr, "\r\x1b[K")
	}
}
