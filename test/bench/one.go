package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/test/bench/benchmarks"
)

// one describes a benchmark of package benchmarks as a subcommand.
type one struct {
	name, short, long string
	// coppice is true if the benchmark runs the coppice program.
	coppice bool
	// flags adds the benchmark's own flags, and returns the benchmark, whose fields they set.
	flags func(flags *bench.Flags) benchmarks.Benchmark
}

// ones are all of them. Each takes less than a minute with its defaults.
var ones = []one{
	{
		name: "scan", short: "Measure the scanner's walk over all objects",
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Scan
			flags.Count(&b.Objects, "objects", 200000, "number of objects")
			return &b
		},
	},
	{
		name: "references", short: "Measure what other clients wait for objects with many owner references or finalizers",
		long: `Create objects with many owner references to owners that do not exist, which the
collector deletes at once. Meanwhile another client creates one object after the other. With
--finalizers the objects have finalizers in place of references, and are deleted, and the
other client deletes one owner of one object after the other.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.References
			flags.Count(&b.Objects, "objects", 200, "number of objects")
			flags.Count(&b.References, "references", 1000, "number of owner references, or of finalizers, of each object")
			flags.BoolVar(&b.Finalizers, "finalizers", false, "give the objects finalizers, and delete them")
			return &b
		},
	},
	{
		name: "replay", short: "Measure the replay of a log into an empty state",
		long: `Write a log, half of it creations and half the removals of a cascade (or only
creations, with --live), and measure its replay into an empty state. The result
counts events as objects.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Replay
			flags.Count(&b.Events, "events", 200000, "approximate number of events in the log")
			flags.BoolVar(&b.Live, "live", false, "write only creations, no removals")
			return &b
		},
	},
	{
		name: "bootstrap", short: "Measure the start of a replica from a snapshot, next to a replay of the log",
		long: `Create objects and update each once, write a snapshot of the state, and create one object
more for every 100. Then measure three starts of a replica: of an empty one by a replay
of the log, of an empty one from the snapshot and the commits since, and of one
that ends before the updates, from the snapshot too. The result is the second of them, and
counts all events of the log as objects.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Bootstrap
			flags.Count(&b.Objects, "objects", 100000, "number of objects")
			flags.BoolVar(&b.Created, "created", false, "leave out the updates")
			return &b
		},
	},
	{
		name: "restart", short: "Measure restarts after a stop and after a kill", coppice: true,
		long: `Start all services in one process, create objects, stop it, start it, kill it,
and start it again. Each time is measured until a command is answered; it
includes the recovery of the NATS server.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Restart
			flags.Count(&b.Objects, "objects", 200000, "number of objects")
			return &b
		},
	},
	{
		name: "failover", short: "Measure how long no command is answered when another graph service takes over", coppice: true,
		long: `Start two graph services, and create objects one by one while the writer is killed,
and while it is stopped, several times each. A gap is the longest time between two
replies. The result has the gaps; its time is the longest after a kill.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Failover
			flags.Count(&b.Rounds, "rounds", 3, "how often the writer is killed, and how often it is stopped")
			flags.Count(&b.Objects, "objects", 10000, "number of objects that exist before")
			flags.Positive(&b.Lease, "lease", 5*time.Second, "as in coppice graph")
			return &b
		},
	},
	{
		name: "archive", short: "Measure what an archive costs the writer",
		long: `Create objects in realms without an archive and with one, in turn, and delete as many by a
wide cascade. The archive gets segments, and snapshots that are verified, meanwhile. The log
stays within its retention. The result has the rates with an archive, and their ratios to
those without one.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Archive
			flags.Count(&b.Rounds, "rounds", 3, "how often each of the two is measured")
			flags.Count(&b.Objects, "objects", 200000, "number of objects of each")
			return &b
		},
	},
	{
		name: "retention", short: "Check that a realm that is written at full speed stays on a disk of known size",
		long: `Create, update and delete objects at full speed, with a bounded log and a bounded archive.
All directories together must stay below 2.5 times the two bounds. Then verify the state, read
the history of an object that was deleted in the oldest commits of the archive, and start
an empty replica from the archive, which must have the same content.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Retention
			flags.DurationVar(&b.Time, "time", 30*time.Second, "how long objects are written")
			size(flags, &b.Log, "log-retention", "256MiB", "size of the log")
			size(flags, &b.Archive, "archive-retention", "512MiB", "size of the archive")
			flags.Count(&b.Objects, "objects", 200000, "maximum number of objects that exist at a time")
			flags.StringVar(&b.URL, "archive", "", "URL of the archive, which must be empty: nats://bucket, or s3://bucket/prefix?endpoint=URL; by default a temporary directory")
			return &b
		},
	},
	{
		name: "cluster", short: "Measure a cluster of three NATS servers, next to one server",
		long: `Start all services in one process, with one NATS server and with a cluster of three
that stores each stream three times, in turn. On each, 64 callers create objects,
and an object with as many dependents is deleted. The servers share the cores and the
disk of this machine. The result has the rate of creations on the cluster, the rates of
the cascades, and the ratios to one server.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Cluster
			flags.Count(&b.Rounds, "rounds", 3, "how often each of the two is measured")
			flags.Count(&b.Objects, "objects", 20000, "number of objects that are created, and of dependents")
			return &b
		},
	},
	{
		name: "memory", short: "Measure the memory of a realm with many objects", coppice: true,
		long: `Start all services in one process, create objects and list them. The result has
the largest resident memory of that process.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Memory
			flags.Count(&b.Objects, "objects", 500000, "number of objects")
			return &b
		},
	},
	{
		name: "realms", short: "Measure one process that serves many realms, at start and idle", coppice: true,
		long: `Start all services in one process with many empty realms. The result has the time
until all are ready, and the share of a core and the resident memory that the idle
process uses. It counts realms as objects.`,
		flags: func(flags *bench.Flags) benchmarks.Benchmark {
			var b benchmarks.Realms
			flags.Count(&b.Realms, "realms", 100, "number of realms")
			flags.Positive(&b.Idle, "idle", 30*time.Second, "how long to measure the idle process")
			return &b
		},
	},
}

// size adds a flag for a number of bytes.
func size(flags *bench.Flags, p *int64, name, value, usage string) {
	text := flags.String(name, value, usage)
	flags.Check(func() error {
		keep, err := lifecycle.ParseRetention(*text)
		if err != nil || keep.Bytes == 0 || keep.Age > 0 {
			return fmt.Errorf("--%s %q: give a size such as 256MiB", name, *text)
		}
		*p = keep.Bytes
		return nil
	})
}

// oneCommand returns the command that runs one benchmark.
func oneCommand() *cobra.Command {
	c := &cobra.Command{
		Use:           "one",
		Short:         "Run one of the benchmarks that start what they measure",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	program := c.PersistentFlags().String("coppice", "", "the coppice program, for benchmarks that run it; by default it is built")
	for _, o := range ones {
		c.AddCommand(o.command(program))
	}
	return c
}

// command returns the subcommand of a benchmark.
func (o one) command(program *string) *cobra.Command {
	c := &cobra.Command{Use: o.name, Short: o.short, Long: cmp.Or(o.long, o.short+"."), Args: cobra.NoArgs}
	flags := bench.AddFlags(c.Flags())
	benchmark := o.flags(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := flags.Validate(); err != nil {
			return err
		}
		config := bench.Config{
			Archive: lifecycle.Retention{Bytes: 10 << 30, Age: 365 * 24 * time.Hour}, // as of `coppice up`
			Version: "0.1.0-dev",                                                     // as of a program that go run builds
			Log:     slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		}
		return flags.RunHere(c, config, func(ctx context.Context, config bench.Config) (*bench.Result, error) {
			if o.coppice && *program == "" {
				*program = filepath.Join(config.Dir, "coppice")
				if err := build(ctx, *program); err != nil {
					return nil, err
				}
			}
			config.Program = func() (string, error) { return *program, nil }
			return benchmark.Run(ctx, config)
		})
	}
	return c
}

// build builds coppice.
func build(ctx context.Context, program string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "github.com/coppice-gc/coppice/cmd/coppice").CombinedOutput() //nolint:gosec // this run's own
	if err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
}
