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
	// figure is what the median is taken of, of several runs: the rate if nil.
	figure func(*result) float64
	// once is that it takes long and is measured once.
	once bool
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

// missedCascade is what is in the way of cascades.
const missedCascade = `The CPU is in the way: two cores have 13 us for each of 150,000 objects a second, and 16 us for each of 120,000. Half of
what an object takes is Pebble's: four rows of each are deleted, which pass through memtables, flushes and compactions. To
read nodes in order to judge them takes most of the rest (the budget below), and more where owners have few dependents
each. A tenth of the two cores stays idle. What else the host of this machine does shows in all of it: the same run has
taken 11 us and 19 us of CPU an object within an hour. Tried and kept: to decide the next commit while one is on its way,
to append large ones while those before are written into the state, to read what is judged once and not again to act on
it, to read nodes by the next instead of by a search, and the counters on owners once and many at a time, larger chunks in
long walks, no second walk when something but the dependents changes, to use the memory of batches and commits again,
fewer and larger compactions, larger blocks in tables, names that are written in order. Tried without effect: larger
memtables, tables that are not compressed. Tried and not kept: smaller memtables, which cost more; twice as many chunks at
once, with which trees gained less than other runs differed by, and wide cascades took a sixth more CPU; one thread more
than there are cores, with which trees took a tenth less time, in two rounds, and creations no less.`

// missedLinear is what is in the way of cascades of any size at the same cost.
const missedLinear = `Flushes and compactions are in the way. What 10,000 objects leave fits into a memtable, and nothing of it is flushed or
compacted before the cascade is over; of 3,000,000 it is, and names, which are in no order, meet tables in all of their
range. Profiles of both, on a machine that takes twice as long, say that they are the whole difference: an object of 10,000
took 14.8 us, one of 3,000,000 21.5, of which flushes and compactions took 7.0 and everything else 14.5. Tried and kept:
to delete neighbours by range, which took half of that away, and costs 1.3 us elsewhere; fewer, larger compactions out of L0,
which took a quarter of the CPU off 3,000,000 objects, and costs lists of very many an eighth; larger blocks in tables. Tried
without effect: still fewer compactions out of L0, a larger first level. What is left is the names: each has a row, deleted
among all others, where a flush and a compaction at the least have to carry that. With all of it, an object of 10,000
took 15.5 us of CPU on the slower machine, and one of 3,000,000 19.2, in turn (medians of 12 and of 3): 1.24x the CPU and
1.04x the time.`

// targets are all of them, in the order of the page.
func targets() []target {
	cascade := func(name string, size int, least float64, args ...string) target {
		args = append(append([]string{"cascade"}, args...), "--objects")
		return withRate(target{name: name, args: args, size: size, split: true, missed: missedCascade}, least)
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
		missed: `It cannot be reached on two cores with a disk as fast as this one: the limit is the CPU, and messages. Where a sync takes a
fifth of a millisecond, 213,000 objects/s are wanted, and two cores have 9 us for each. On the same machine bare NATS takes
17 to 21 us to answer a request for somebody who does nothing but answer (the table has that rate), and an object in batches of
500, where messages are hardly a part of it, takes 16. So whoever is asked over NATS by 64 callers, one by one, reaches it
only where a sync takes 0.35 to 0.45 ms or more. Coppice does where it takes some six: with a build that sleeps after each
sync, here, it made 18,600 objects/s where a sync takes 1.3 ms, of 32,800 that are wanted then, 11,900 of 16,400 at 2.6 ms,
7,400 of 7,400 at 5.8 ms, and 4,200 of 3,950 at 10.8 ms. Between the rates stand the service's own connection, the check of
the object, the look for its name, its share of a commit, and the encoding of a request and a reply; while the callers wait
for a commit, the cores wait, too. Tried and kept: what callers of one client create at once goes together in
few requests (` + "`--apart`" + ` measures without that), which brought half as many objects again for two thirds of the CPU; to
decide the next commit while one is on its way, to check and to encode by hand and beside the writer, to look for new names
in tables alone; where appends take a millisecond or more, to wait for those whom the last commit has answered, and to
send another request for who comes late, which is 1.3 times the rate at 1.3 ms, 1.4 times at 2.6 ms, and 1.7 times at 5.8
and 10.8 ms, with little more than half of the syncs. Tried without effect: to look up the names of all requests of a commit at once, a connection of its own for
the log, more threads than there are cores; fewer or more requests under way than four. Tried and not kept: smaller commits
that are answered sooner, with which the rate was a seventh lower; to wait for those who were answered on a quick disk, which
leaves the cores idle. As SCHED_BATCH, which is for machines of its own
(docs/operations.md), it is a seventh higher.`,
	}
	return []target{
		wide,
		cascade("cascade wide, foreground", million, 120_000, "--policy", "foreground"),
		cascade("cascade wide, orphan", million, 120_000, "--policy", "orphan"),
		cascade("cascade tree 100 x 100 x 100, background", million, 120_000, "--shape", "tree"),
		cascade("cascade tree 100 x 100 x 100, foreground", million, 120_000, "--shape", "tree", "--policy", "foreground"),
		cascade("cascade chain of 10,000, background", 10_000, 50_000, "--shape", "chain"),
		perSync,
		withRate(target{name: "create, batches of 500", args: []string{"create", "--callers", "8", "--objects"}, size: million, split: true, profile: "create", missed: `The CPU is in the way: the client, NATS, the writer and Pebble share two cores, which have 20 us for each of 100,000 objects
a second. Each of 400 bytes passes through the client, the NATS server and the service's connection, and once more as a
part of a commit; it is encoded three times, checked, written to the log, to a memtable and to a table. An eighth of the two
cores stays idle: an append takes nine milliseconds, of which the disk takes less than one, and for a third of the time the
writer waits for it, having decided the next commit or all that there is. It is the same with three times as many callers.
With 250,000 objects, before compactions begin to count, 119,000 a second were reached. Tried and kept: to check and to
encode by hand and beside the writer, to decide the next commit while one is on its way, to look for new names in tables
alone, bodies apart from keys, a block cache larger than the memtables, compressed commits, memory that is used again, less
frequent collection of garbage, larger blocks in tables, names that are written in order. Tried without effect: more threads
than cores.`}, 100_000),
		{
			name: "replay into an empty state", once: true, args: []string{"replay", "--events"}, size: 5 * million,
			wants: "1,000,000 events/s", reached: func(r *result) bool { return r.ObjectsPerSecond >= million },
			got: func(r *result) string {
				return fmt.Sprintf("%s events/s; only to read the log %s/s, to read and decode it %s/s", thousands(r.ObjectsPerSecond),
					thousands(float64(r.Objects)/r.Details["read_seconds"]), thousands(float64(r.Objects)/r.Details["decode_seconds"]))
			}, profile: "replay",
			missed: `Two cores have 2 us for each of a million events a second. The log is read twice to see what it removes itself, and
once more to fold the rest: a third of that goes into reading and decompressing, the rest into decoding, and into looking
up who refers to whom. Tried and kept: to leave out of the fold what the log removes (to write its rows and remove them
took 11 us an event), to decode several commits at once, to look objects up in the order of their uids.`,
		},
		{
			name: "restart", once: true, args: []string{"restart", "--objects"}, size: 10 * million,
			// A process never takes over a lease that another may rely on: lease.Acquire.
			wants: "2 s after a stop, 6 s after a kill: the lease of the killed process, 5 s, and 1 s",
			reached: func(r *result) bool {
				return r.Details["seconds_after_stop"] <= 2 && r.Details["seconds_after_kill"] <= 6
			},
			got: func(r *result) string {
				return fmt.Sprintf("%.2f s after a stop, %.2f s after a kill, of which 4 s wait for the lease", r.Details["seconds_after_stop"], r.Details["seconds_after_kill"])
			},
			missed: `After a kill the NATS server is in the way: its index of the stream is out of date, as it logs, and it reads all blocks of
the log again before anything of the state is looked at. That grows with the log. Tried and kept: commits that are
compressed, so that the log has 58 bytes for each of these objects and not 410, in a stream that is not, as the server
decompresses a block twice: with 10,000,000 objects it then takes 0.6 s, which was 13 s.`,
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
			missed: `The way through NATS is in the way where the disk is fast: somebody who does nothing but append each request to a stream of
a NATS server of its own, and answer, has a p99 of 1.3 to 1.5 times that of a sync (the table has it). That leaves half a
sync, where to encode a request, to read and decide it, and to encode a commit and a reply takes 0.09 ms in the median, and
twice as long in the slowest hundredth. A command is a request, an append with its acknowledgement, and a reply: six passes
through the server and as many switches between goroutines on two cores, half of which the client uses. Where a sync took
0.24 ms, it took 0.06 ms until the service had the request, 0.02 to read and check it, 0.05 to decide and to send, 0.09 more
than the sync to append, 0.01 to answer, and 0.03 until the client had the reply, by the clock at each step of 5,000
commands, in a build made for that. In the slowest hundredth most of these take twice as long together. They come in bursts,
which are not the collection of garbage (without any it is the same) nor compactions (there are none), but in part the
kernel, which wakes a thread on the core that another of the process runs on, and takes that away from it for 0.04 ms: of
13,100 threads that the process woke, 7,100 came to the core of who woke them while the other one was idle. As
SCHED_BATCH, which forbids that (` + "`chrt --batch 0 coppice bench latency`" + `), the p99 was 1.69 times that of a sync where it
was 2.07 otherwise, in turn. That is for a machine of its own only (docs/operations.md). Tried and kept: to answer before
the commit is written into the state, and to let the answer be written out first; to send a commit from where it is decided,
to make way for who writes it out, and to take its answer from a subscription of its own; goroutines that stay; not to look
up again what the command before has looked up. Tried without effect: connections by TCP instead of within the process,
which are slower; to write the state a tenth of a millisecond after the answer; more threads than there are cores; to write
to connections at once, not by a goroutine that gathers what there is, which took a thirtieth off p99, and from 64 callers a
twentieth of their rate.`,
		},
	}
}

// toSync is the p99 of commands, in that of syncs.
func toSync(r *result) float64 { return r.Details["p99_to_sync_p99"] }

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
