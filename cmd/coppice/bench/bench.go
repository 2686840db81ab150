// Package bench measures Coppice by its ordinary path: objects made and
// deleted through the API, evaluated by processors, over NATS, on disk.
//
// A benchmark runs against a Deployment, checks what came of it, and fails if
// that is wrong. Objects have about 400 bytes, random names, two labels and one
// owner.
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

// Benchmark is something to measure.
type Benchmark interface {
	// Run measures. It returns an error also if the outcome is wrong.
	Run(ctx context.Context, d *Deployment) (*Result, error)
}

// Result is what a benchmark found.
type Result struct {
	Name             string  `json:"name"`
	Objects          int     `json:"objects"`
	Seconds          float64 `json:"seconds"`
	ObjectsPerSecond float64 `json:"objects_per_second"`
	// P50 and P99 are latencies in milliseconds, of what Latency says.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// Latency says what P50 and P99 are of.
	Latency string `json:"latency"`
	// CPUSeconds are those of all processes that were measured, the client's
	// included, while it was measured; PeakRSSBytes is their largest resident
	// memory since they began, summed up. Both are zero of a deployment
	// elsewhere.
	CPUSeconds   float64 `json:"cpu_seconds"`
	PeakRSSBytes uint64  `json:"peak_rss_bytes"`
	// Commits and BytesLogged are what the log has grown by.
	Commits     uint64 `json:"commits"`
	BytesLogged uint64 `json:"bytes_logged"`
	// Sync says that a commit is acknowledged when it is on disk; false of a
	// deployment elsewhere, whose server does not tell.
	Sync bool `json:"sync"`
	// Processes is how many processes there were; 0 if they are elsewhere.
	Processes int    `json:"processes"`
	Version   string `json:"version"`
	// Details are what this benchmark tells alongside, by name with the unit.
	Details map[string]float64 `json:"details,omitempty"`
}

// detail notes what this benchmark tells alongside.
func (r *Result) detail(name string, value float64) {
	if r.Details == nil {
		r.Details = map[string]float64{}
	}
	r.Details[name] = value
}

// latencies sets P50 and P99.
func (r *Result) latencies(of string, list []time.Duration) {
	r.Latency = of
	r.P50, r.P99 = milliseconds(percentile(list, 50)), milliseconds(percentile(list, 99))
}

// percentile is the smallest of a list that is as large as p percent of it. It
// sorts the list.
func percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[max(0, (len(list)*p+99)/100-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Table writes a result for people.
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
		row("CPU", "%.2f s, %.2f us an object", r.CPUSeconds, r.CPUSeconds*1e6/math.Max(1, float64(r.Objects)))
		row("memory", "%.0f MiB resident at peak", float64(r.PeakRSSBytes)/(1<<20))
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
