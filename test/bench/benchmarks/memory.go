package benchmarks

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
)

// Memory measures the memory of a realm with many objects.
type Memory struct{ Objects int }

// Run creates the objects with all services in one process, and gets a sample of them.
// PeakRSSBytes is the largest resident memory of this process.
func (b Memory) Run(ctx context.Context, c bench.Config) (*bench.Result, error) {
	r := &bench.Result{Name: "memory", Objects: b.Objects}
	one, err := startAside(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = one.end() }()
	start := time.Now()
	if one.place, err = one.d.Fill(ctx, b.Objects); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(start).Seconds()
	r.ObjectsPerSecond = float64(b.Objects) / r.Seconds
	if err := one.check(ctx); err != nil {
		return nil, err
	}
	return r, one.measured(r)
}
