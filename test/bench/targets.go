package main

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
)

// result is what a benchmark prints with -o json.
type result = bench.Result

// cost returns the microseconds of CPU for each object.
func cost(r *result) float64 { return r.CPUSeconds * 1e6 / float64(max(1, r.Objects)) }

// target is a benchmark with the wanted figure.
type target struct {
	name string
	args []string
	// size is the number of objects at full size; its flag is the last of args.
	size int
	// wants is the wanted figure as text, got the measured one in the same form, and
	// reached reports whether it was reached.
	wants   string
	reached func(*result) bool
	got     func(*result) string
	// split: the services also run as separate processes, for which 60% is wanted.
	split bool
	// figure is the figure of which the median is taken; the rate if nil.
	figure func(*result) float64
	// once: it takes long, and is measured once.
	once bool
	// profile is the name of its flame graph; empty for none.
	profile string
	// record is the file in docs/design that has the experiments.
	record string
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

// recordCascades is the record of experiments with cascades.
const recordCascades = "0021-cost-of-cascades.md"

// targets are all targets, in the order of the page.
func targets() []target {
	cascade := func(name string, size int, least float64, args ...string) target {
		args = append(append([]string{"cascade"}, args...), "--objects")
		return withRate(target{name: name, args: args, size: size, split: true, record: recordCascades}, least)
	}
	wide := cascade("cascade wide, background", million, 150_000)
	wide.profile = "cascade"
	safe := cascade("cascade wide, background, with a brake and 1% protected", million, 135_000, "--safe")
	safe.split = false // the role of benchmarks changes no settings and protects nothing
	perSync := target{
		name: "create, 64 callers with one object each", args: []string{"create", "--callers", "64", "--batch", "1", "--objects"}, size: 50_000,
		wants:   "64 / (1.5 x a sync of the disk)",
		reached: func(r *result) bool { return r.ObjectsPerSecond >= leastOf64(r) },
		got: func(r *result) string {
			return fmt.Sprintf("%s objects/s; a sync of %.0f bytes takes %.3g ms, so that %s are wanted, where bare NATS answers %s requests/s",
				thousands(r.ObjectsPerSecond), r.Details["sync_bytes"], r.Details["sync_p50_ms"], thousands(leastOf64(r)), thousands(r.Details["bare_nats_requests_per_second"]))
		},
		split:  true,
		record: "0022-cost-of-creations.md",
	}
	return []target{
		wide,
		cascade("cascade wide, foreground", million, 120_000, "--policy", "foreground"),
		cascade("cascade wide, orphan", million, 120_000, "--policy", "orphan"),
		cascade("cascade tree 100 x 100 x 100, background", million, 120_000, "--shape", "tree"),
		cascade("cascade tree 100 x 100 x 100, foreground", million, 120_000, "--shape", "tree", "--policy", "foreground"),
		cascade("cascade chain of 10,000, background", 10_000, 50_000, "--shape", "chain"),
		safe,
		perSync,
		withRate(target{name: "create, batches of 500", args: []string{"create", "--callers", "8", "--objects"}, size: million, split: true, profile: "create", record: "0022-cost-of-creations.md"}, 100_000),
		{
			name: "apply of changed manifests, batches of 500", args: []string{"apply", "--callers", "8", "--objects"}, size: 200_000,
			wants: "published", reached: func(*result) bool { return true },
			got: func(r *result) string {
				return fmt.Sprintf("%s objects/s; of new objects %s/s, of the same manifests %s/s", thousands(r.ObjectsPerSecond),
					thousands(r.Details["created_objects_per_second"]), thousands(r.Details["unchanged_objects_per_second"]))
			},
			record: "0057-apply-three-ways.md",
		},
		{
			name: "replay into an empty state", once: true, args: []string{"replay", "--events"}, size: 5 * million,
			wants: "1,000,000 events/s", reached: func(r *result) bool { return r.ObjectsPerSecond >= million },
			got: func(r *result) string {
				return fmt.Sprintf("%s events/s; only to read the log %s/s, to read and decode it %s/s", thousands(r.ObjectsPerSecond),
					thousands(float64(r.Objects)/r.Details["read_seconds"]), thousands(float64(r.Objects)/r.Details["decode_seconds"]))
			}, profile: "replay",
			record: "0024-replay-and-restart.md",
		},
		bootstrapTarget("start from a snapshot, objects updated once", func(ratio float64) bool { return ratio >= 1.5 }, "1.5 times faster than a replay of the same log", "bootstrap", "--objects"),
		bootstrapTarget("start from a snapshot, objects created only", func(float64) bool { return true }, "published", "bootstrap", "--created", "--objects"),
		{
			name: "read the past", once: true, args: []string{"history", "--objects"}, size: 100_000,
			wants: "published", reached: func(*result) bool { return true },
			got: func(r *result) string {
				return fmt.Sprintf("%.3g s until the state is built from the log and read, %.3g s from another state, %.3g s at the present revision; a read of a state that is built p50 %.3g ms, p99 %.3g ms",
					r.Seconds, r.Details["from_another_state_seconds"], r.Details["present_seconds"], r.P50, r.P99)
			},
			record: "0037-reading-the-past.md",
		},
		{
			name: "restart", once: true, args: []string{"restart", "--objects"}, size: 10 * million,
			// A process never takes over a lease that another may rely on: package lease.
			wants: "2 s after a stop, 6 s after a kill: the lease of the killed process, 5 s, and 1 s",
			reached: func(r *result) bool {
				return r.Details["seconds_after_stop"] <= 2 && r.Details["seconds_after_kill"] <= 6
			},
			got: func(r *result) string {
				return fmt.Sprintf("%.2f s after a stop, %.2f s after a kill, of which 4 s wait for the lease", r.Details["seconds_after_stop"], r.Details["seconds_after_kill"])
			},
			record: "0024-replay-and-restart.md",
		},
		{
			name: "fail-over", once: true, args: []string{"failover", "--objects"}, size: 100_000,
			wants: "7.5 s after a kill: 1.5 times the lease; 0.2 s at a stop",
			reached: func(r *result) bool {
				return r.Details["kill_longest_seconds"] <= 1.5*r.Details["lease_seconds"] && r.Details["stop_longest_seconds"] <= 0.2
			},
			got: func(r *result) string {
				return fmt.Sprintf("%.2f s after a kill, %.3f s at a stop: the longest of 3", r.Details["kill_longest_seconds"], r.Details["stop_longest_seconds"])
			},
			record: "0002-lease-and-clock.md",
		},
		{
			name: "create in batches, and a wide cascade, with an archive", once: true, args: []string{"archive", "--objects"}, size: million,
			wants: "at least 95% of the rates without an archive",
			reached: func(r *result) bool {
				return r.Details["with_to_without"] >= 0.95 && r.Details["cascade_with_to_without"] >= 0.95
			},
			got: func(r *result) string {
				return fmt.Sprintf("%.0f%%: %s objects/s, %s without an archive; the cascade %.0f%%: %s objects/s, %s without an archive; %.0f snapshots were verified meanwhile",
					100*r.Details["with_to_without"], thousands(r.ObjectsPerSecond), thousands(r.Details["without_objects_per_second"]),
					100*r.Details["cascade_with_to_without"], thousands(r.Details["cascade_objects_per_second"]), thousands(r.Details["cascade_without_objects_per_second"]), r.Details["verified_snapshots"])
			},
			record: "0031-archiver.md",
		},
		{
			name: "create, 64 callers with one object each, on a cluster of three NATS servers", once: true, args: []string{"cluster", "--objects"}, size: 50_000,
			wants: "published", reached: func(*result) bool { return true },
			got: func(r *result) string {
				return fmt.Sprintf("%s objects/s, %.0f%% of one server (%s objects/s); a wide cascade %s objects/s, %.0f%% of one server (%s objects/s); all servers share the cores and the disk",
					thousands(r.ObjectsPerSecond), 100*r.Details["to_one_server"], thousands(r.Details["one_server_objects_per_second"]),
					thousands(r.Details["cascade_objects_per_second"]), 100*r.Details["cascade_to_one_server"], thousands(r.Details["cascade_one_server_objects_per_second"]))
			},
			record: "0032-chaos-on-a-cluster.md",
		},
		{
			name: "memory", once: true, args: []string{"memory", "--objects"}, size: 10 * million,
			wants: "1,024 MiB resident at peak", reached: func(r *result) bool { return r.PeakRSSBytes <= 1024*mib },
			got: func(r *result) string { return thousands(float64(r.PeakRSSBytes)/mib) + " MiB resident at peak" },
		},
		{
			name: "latency, one client", args: []string{"latency", "--objects"}, size: 10_000,
			wants:   "p99 within 2x that of a sync of as much",
			figure:  toSync,
			reached: func(r *result) bool { return toSync(r) <= 2 },
			got: func(r *result) string {
				return fmt.Sprintf("p99 %.3g ms, %.2fx that of a sync (%.3g ms), where bare NATS takes %.3g ms to append and answer; p50 %.3g ms, bare NATS %.3g ms",
					r.P99, toSync(r), r.Details["sync_p99_ms"], r.Details["bare_nats_p99_ms"], r.P50, r.Details["bare_nats_p50_ms"])
			},
			record: "0023-latency-of-a-command.md",
		},
	}
}

// bootstrapTarget returns the target of the start of a replica from a snapshot, next to a replay in the same run.
func bootstrapTarget(name string, reached func(ratio float64) bool, wants string, args ...string) target {
	return target{
		name: name, once: true, args: args, size: 10 * million, wants: wants,
		reached: func(r *result) bool { return reached(r.Details["replay_to_bootstrap"]) },
		got: func(r *result) string {
			return fmt.Sprintf("%.3g s, with %s MiB resident at peak in a process that has also made the log, %.2fx faster than a replay (%.3g s); %.3g s for a stale replica; the snapshot has %s MiB",
				r.Seconds, thousands(float64(r.PeakRSSBytes)/mib), r.Details["replay_to_bootstrap"], r.Details["replay_seconds"], r.Details["stale_seconds"], thousands(r.Details["snapshot_bytes"]/mib))
		},
		record: "0033-start-and-restore.md",
	}
}

// toSync returns the p99 of commands as a multiple of that of syncs.
func toSync(r *result) float64 { return r.Details["p99_to_sync_p99"] }

// leastOf64 returns the rate that 64 callers must reach, given the time of a sync.
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
