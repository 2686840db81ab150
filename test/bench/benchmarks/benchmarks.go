// Package benchmarks has the benchmarks that only developers run: each starts what it measures.
//
// A [Benchmark] gets the configuration of what it starts, checks the outcome, and fails if it is wrong.
// Package bench has the benchmarks that also measure a deployment of a user, and what both share.
package benchmarks

import (
	"context"
	"errors"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
)

// Benchmark is one measurement.
type Benchmark interface {
	// Run measures, in the directory of the configuration. It returns an error also if the outcome is wrong.
	Run(ctx context.Context, c bench.Config) (*bench.Result, error)
}

// deployed starts all services on the data in the directory of the configuration, and stops them after do.
func deployed(ctx context.Context, c bench.Config, do func(*bench.Deployment) error) error {
	d, err := bench.Deploy(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}
