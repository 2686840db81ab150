package main

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/internal/bench"
)

// result is what `coppice bench -o json` prints.
type result = bench.Result

// cost is microseconds of CPU for each object.
func cost(r *result) float64 { return r.CPUSeconds * 1e6 / float64(max(1, r.Objects)) }

// target is a benchmark with what is wanted of it.
type target struct {
	name string
	args []string
	// size is how many objects there are at full size; its flag is the last
	// of args.
	size int
	// wants says what is wanted, reached whether it was, and got what came of
	// it, in the same words.
	wants   string
	reached func(*result) bool
	got     func(*result) string
	// split is that the services also run as processes of their own, of which
	// 60% is wanted.
	split bool
	// profile is the name of the flame graph that is made of it, if one is.
	profile string
	// missed says what is in the way, where it is not reached.
	missed string
}

func rate(least float64) (wants string, reached func(*result) bool, got func(*result) string) {
	return fmt.Sprintf("%s objects/s", thousands(least)),
		func(r *result) bool { return r.ObjectsPerSecond >= least },
		func(r *result) string { return thousands(r.ObjectsPerSecond) + " objects/s" }
}

func withRate(t target, least float64) target {
	t.wants, t.reached, t.got = rate(least)
	return t
}

const (
	million = 1_000_000
	mib     = 1 << 20
)

// targets are all of them, in the order of the page.
func targets() []target {
	cascade := func(name string, size int, least float64, args ...string) target {
		args = append(append([]string{"cascade"}, args...), "--objects")
		return withRate(target{name: name, args: args, size: size, split: true}, least)
	}
	wide := cascade("cascade wide, background", million, 150_000)
	wide.profile = "cascade"
	perSync := target{
		name: "create, 64 callers with one object each", args: []string{"create", "--callers", "64", "--batch", "1", "--objects"}, size: 50_000,
		wants:   "64 / (1.5 x a sync of the disk)",
		reached: func(r *result) bool { return r.ObjectsPerSecond >= leastOf64(r) },
		got: func(r *result) string {
			return fmt.Sprintf("%s objects/s; a sync of %.0f bytes takes %.3g ms, so that %s are wanted, where bare NATS answers %s requests/s",
				thousands(r.ObjectsPerSecond), r.Details["sync_bytes"], r.Details["sync_p50_ms"], thousands(leastOf64(r)), thousands(r.Details["bare_nats_requests_per_second"]))
		},
		split: true,
		missed: `Where a sync takes a tenth of a millisecond, this asks for more requests than bare NATS answers on the same machine to
somebody who does nothing but answer (the table has that rate). What remains between the two is the cost of a commit's
share, of looking up one name, and of marshalling a request and a reply with reflection. Tried: to look up the names of
all requests of a commit at once, which made no difference that could be measured.`,
	}
	return []target{
		wide,
		cascade("cascade wide, foreground", million, 120_000, "--policy", "foreground"),
		cascade("cascade wide, orphan", million, 120_000, "--policy", "orphan"),
		cascade("cascade tree 100 x 100 x 100, background", million, 120_000, "--shape", "tree"),
		cascade("cascade tree 100 x 100 x 100, foreground", million, 120_000, "--shape", "tree", "--policy", "foreground"),
		cascade("cascade chain of 10,000, background", 10_000, 50_000, "--shape", "chain"),
		perSync,
		withRate(target{name: "create, batches of 500", args: []string{"create", "--objects"}, size: million, split: true, profile: "create", missed: `The CPU is in the way: the client, NATS, the writer and Pebble share two cores. About half of it is the writer's decision,
of which a third is to find that the names are new: they are random, and are looked up in order through the tables'
filters. Marshalling with reflection, in the client and the service, and the memory that it allocates come next. Tried and
kept: one iterator for all names of a batch, a block cache larger than the memtables, no look for a uid that was drawn
just now, bodies apart from keys. Not tried yet: to validate and encode objects before they come to the writer, and
generated marshalling.`}, 100_000),
		{
			name: "replay into an empty state", args: []string{"replay", "--events"}, size: 5 * million,
			wants: "1,000,000 events/s", reached: func(r *result) bool { return r.ObjectsPerSecond >= million },
			got: func(r *result) string { return thousands(r.ObjectsPerSecond) + " events/s" }, profile: "replay",
			missed: `Pebble is in the way: about half of the CPU goes into its memtables, flushes and compactions, and the fold itself, which
one goroutine does, takes the other half. Not tried yet: to decode commits beside the fold, and to build tables and ingest
them. A log of creations alone has 400 bytes of body for each event, which have to be read, decompressed and written: a
million of them a second is 400 MB/s each way, on two cores.`,
		},
		{
			name: "restart", args: []string{"restart", "--objects"}, size: 10 * million,
			wants: "2 s after a stop, 5 s after a kill",
			reached: func(r *result) bool {
				return r.Details["seconds_after_stop"] <= 2 && r.Details["seconds_after_kill"] <= 5
			},
			got: func(r *result) string {
				return fmt.Sprintf("%.2f s after a stop, %.2f s after a kill", r.Details["seconds_after_stop"], r.Details["seconds_after_kill"])
			},
		},
		{
			name: "memory", args: []string{"memory", "--objects"}, size: 10 * million,
			wants: "1,024 MiB resident at peak", reached: func(r *result) bool { return r.PeakRSSBytes <= 1024*mib },
			got: func(r *result) string { return thousands(float64(r.PeakRSSBytes)/mib) + " MiB resident at peak" },
		},
		{
			name: "latency, one client", args: []string{"latency", "--objects"}, size: 10_000,
			wants:   "p99 within 2x that of a sync of as much",
			reached: func(r *result) bool { return r.Details["p99_to_sync_p99"] <= 2 },
			got: func(r *result) string {
				return fmt.Sprintf("p99 %.3g ms, %.2fx that of a sync (%.3g ms); p50 %.3g ms", r.P99, r.Details["p99_to_sync_p99"], r.Details["sync_p99_ms"], r.P50)
			},
		},
	}
}

// leastOf64 is what 64 callers must reach, given how long a sync takes.
func leastOf64(r *result) float64 { return 64 / (1.5 * r.Details["sync_p50_ms"] / 1000) }

// thousands is a number with commas.
func thousands(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), ",")
}
