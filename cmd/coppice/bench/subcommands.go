package bench

import "fmt"

// Command is a benchmark as a subcommand of `coppice bench`.
type Command struct {
	Name, Short, Long string
	// Flags adds the benchmark's own flags, and returns the benchmark, whose fields they set.
	Flags func(flags *Flags) Benchmark
}

// Commands are the benchmarks that also measure a deployment that runs already. Each takes less than a minute with
// its defaults.
var Commands = []Command{
	{
		Name: "cascade", Short: "Measure the deletion of an object with many dependents",
		Long: `Create an object with many dependents, delete it, and measure the time until a
fresh list shows only the survivors and all work is acknowledged. One dependent
in a hundred survives because of a second owner. One in a thousand is blocked by
an external finalizer, which the benchmark runs.

Shapes: in "wide" all dependents have the same owner; "tree" has three levels
below the root; in "chain" each object owns the next; in "random" the owner of
each object is a random earlier one.`,
		Flags: func(flags *Flags) Benchmark {
			var b Cascade
			var policy string
			flags.IntVar(&b.Objects, "objects", 100000, "approximate number of dependents")
			flags.StringVar(&b.Shape, "shape", "wide", "wide, tree, chain or random")
			flags.StringVar(&policy, "policy", "background", "background, foreground or orphan")
			flags.BoolVar(&b.Safe, "safe", false, "give the realm a brake that is not reached, and protect the survivors instead of giving them a second owner")
			flags.Check(func() error {
				var ok bool
				if b.Policy, ok = map[string]string{"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}[policy]; !ok {
					return fmt.Errorf("--policy %q: choose background, foreground or orphan", policy)
				}
				return b.Check()
			})
			return &b
		},
	},
	{
		Name: "create", Short: "Measure the creation of objects",
		Flags: func(flags *Flags) Benchmark {
			var b Create
			callsFlags(flags, &b.Objects, &b.Callers, &b.Batch)
			flags.BoolVar(&b.Unbatched, "without-batching", false, "send each call as its own request; by default the client coalesces concurrent calls with one object")
			return &b
		},
	},
	{
		Name: "update", Short: "Measure updates of objects",
		Flags: func(flags *Flags) Benchmark {
			var b Update
			callsFlags(flags, &b.Objects, &b.Callers, &b.Batch)
			return &b
		},
	},
	{
		Name: "apply", Short: "Measure apply: of new objects, of the same manifests, and of changed ones",
		Long: `Apply manifests that create objects, the same manifests again, and then changed ones.
The result is the last of these, and has the rates of the others.`,
		Flags: func(flags *Flags) Benchmark {
			var b Apply
			callsFlags(flags, &b.Objects, &b.Callers, &b.Batch)
			return &b
		},
	},
	{
		Name: "latency", Short: "Measure the creation of one object at a time, next to bare NATS and bare disk syncs",
		Flags: func(flags *Flags) Benchmark {
			var b Latency
			flags.Count(&b.Objects, "objects", 5000, "number of objects")
			return &b
		},
	},
	{
		Name: "list", Short: "Measure a list of objects, page by page",
		Flags: func(flags *Flags) Benchmark {
			var b List
			flags.Count(&b.Objects, "objects", 200000, "number of objects")
			return &b
		},
	},
	{
		Name: "watch", Short: "Measure the delay from a creation to its event in a watch",
		Flags: func(flags *Flags) Benchmark {
			var b Watch
			flags.Count(&b.Objects, "objects", 50000, "number of objects")
			flags.Count(&b.Watchers, "watchers", 4, "number of watchers, each of which receives every event")
			return &b
		},
	},
	{
		Name: "history", Short: "Measure reads of the past: of a state that has to be built, and of one that is",
		Long: `Create objects, and one more for every 100, twice. Then read an object as it was before
these, which waits until the state is built from the log; read it 500 times again;
and read one between the two additions, whose state is built from the first one. The
result is the first of them, and has the latency of the second.`,
		Flags: func(flags *Flags) Benchmark {
			var b History
			flags.Count(&b.Objects, "objects", 100000, "number of objects")
			return &b
		},
	},
}

// callsFlags adds the flags of benchmarks whose callers send batches of objects.
func callsFlags(flags *Flags, objects, callers, batch *int) {
	flags.Count(objects, "objects", 100000, "number of objects")
	flags.Count(callers, "callers", 4, "number of callers, each with one call at a time")
	flags.Count(batch, "batch", 500, "number of objects in a call")
}
