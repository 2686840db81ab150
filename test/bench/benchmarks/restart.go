package benchmarks

import (
	"context"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
)

// Restart measures how long a realm takes to start again after a stop and after a
// kill.
type Restart struct{ Objects int }

// Run starts all services in one process and creates the objects. It stops the process and starts
// it again, and then kills it and starts it again. Both times it measures from the start until a
// command is answered, which includes the recovery of the NATS server. Seconds is the time after
// the kill.
func (b Restart) Run(ctx context.Context, c bench.Config) (*bench.Result, error) {
	r := &bench.Result{Name: "restart", Objects: b.Objects}
	one, err := startAside(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = one.end() }()
	if one.place, err = one.d.Fill(ctx, b.Objects); err != nil {
		return nil, err
	}
	if err := one.child.Stop(); err != nil {
		return nil, err
	}
	stopped, err := one.answered(ctx)
	if err != nil {
		return nil, err
	}
	if err := one.child.Kill(); err != nil {
		return nil, err
	}
	killed, err := one.answered(ctx)
	if err != nil {
		return nil, err
	}
	if err := one.measured(r); err != nil {
		return nil, err
	}
	r.Seconds, r.ObjectsPerSecond = killed.Seconds(), float64(b.Objects)/killed.Seconds()
	r.Detail("seconds_after_stop", stopped.Seconds())
	r.Detail("seconds_after_kill", killed.Seconds())
	return r, one.check(ctx)
}
