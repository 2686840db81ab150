// Package bench measures Coppice end to end: clients create and delete objects
// through the API, processors evaluate them, all over NATS and on disk.
//
// A [Benchmark] runs against a [Deployment], checks the outcome, and fails if it is
// wrong. Objects have about 400 bytes, random names, two labels and one owner.
// [Commands] are the subcommands of `coppice bench`. The benchmarks of test/bench/benchmarks,
// which only developers run, share the [Deployment], the objects, the [Meter] and the [Flags].
package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Benchmark is one measurement of a deployment.
type Benchmark interface {
	// Run measures. It returns an error also if the outcome is wrong.
	Run(ctx context.Context, d *Deployment) (*Result, error)
}

// Result is what a benchmark has measured.
type Result struct {
	Name             string  `json:"name"`
	Objects          int     `json:"objects"`
	Seconds          float64 `json:"seconds"`
	ObjectsPerSecond float64 `json:"objects_per_second"`
	// P50 and P99 are percentiles in milliseconds of the latency that Latency names.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// Latency names what P50 and P99 measure, such as "a call".
	Latency string `json:"latency"`
	// CPUSeconds is the CPU time that the measured processes used during the
	// measurement. PeakRSSBytes is the sum of their largest resident memory since
	// they started. The process of the client counts, except in Memory, Realms and
	// Restart, which measure the process of the services alone. Both are zero, and
	// absent from JSON and tables, if the deployment runs elsewhere or the system is
	// not Linux.
	CPUSeconds   float64 `json:"cpu_seconds,omitzero"`
	PeakRSSBytes uint64  `json:"peak_rss_bytes,omitzero"`
	// Commits and BytesLogged say by how much the log has grown.
	Commits     uint64 `json:"commits"`
	BytesLogged uint64 `json:"bytes_logged"`
	// Sync says that the NATS server syncs each commit to disk before it
	// acknowledges it. False if the deployment runs elsewhere: its server does
	// not report this.
	Sync bool `json:"sync"`
	// Processes counts the measured processes; 0 if they run elsewhere.
	Processes int    `json:"processes"`
	Version   string `json:"version"`
	// Details are further figures of this benchmark, by name. The name ends with
	// the unit.
	Details map[string]float64 `json:"details,omitempty"`
}

// Detail adds a further figure.
func (r *Result) Detail(name string, value float64) {
	if r.Details == nil {
		r.Details = map[string]float64{}
	}
	r.Details[name] = value
}

// Latencies sets P50 and P99.
func (r *Result) Latencies(of string, list []time.Duration) {
	r.Latency = of
	r.P50, r.P99 = Milliseconds(Percentile(list, 50)), Milliseconds(Percentile(list, 99))
}

// Percentile returns the p-th percentile of a list by nearest rank. It sorts
// the list.
func Percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[max(0, (len(list)*p+99)/100-1)]
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Table writes the result as a table.
func (r *Result) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, a ...any) {
		_, _ = fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, a...)...)
	}
	row("benchmark", "%s", r.Name)
	row("objects", "%d", r.Objects)
	row("time", "%.3f s", r.Seconds)
	row("rate", "%.0f objects/s", r.ObjectsPerSecond)
	if r.Latency != "" {
		row(r.Latency, "p50 %.3g ms, p99 %.3g ms", r.P50, r.P99)
	}
	if r.Processes > 0 {
		if UsageKnown {
			if r.CPUSeconds > 0 {
				row("CPU", "%.2f s, %.2f us an object", r.CPUSeconds, r.CPUSeconds*1e6/math.Max(1, float64(r.Objects)))
			}
			row("memory", "%.0f MiB resident at peak", float64(r.PeakRSSBytes)/(1<<20))
		}
		row("processes", "%d", r.Processes)
		row("synced to disk", "%v", r.Sync)
	}
	row("log", "%d commits, %.1f MiB", r.Commits, float64(r.BytesLogged)/(1<<20))
	for _, name := range sortedKeys(r.Details) {
		row(strings.ReplaceAll(name, "_", " "), "%.6g", r.Details[name])
	}
	row("version", "%s", r.Version)
	return t.Flush()
}

func sortedKeys(m map[string]float64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
