package benchmarks

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/poll"
)

// Realms measures one process that serves many realms.
type Realms struct {
	Realms int
	// Idle is how long the process is measured while it is idle.
	Idle time.Duration
}

// Run starts all services with this many empty realms in a process of its own. Seconds
// is the time until all are ready. After a fifth of Idle, Run measures the CPU time and
// the resident memory of the idle process.
func (b Realms) Run(ctx context.Context, c bench.Config) (r *bench.Result, err error) {
	args := []string{"up", "--data", filepath.Join(c.Dir, "realms"), "--port", "-1", "--http", ""}
	for i := range b.Realms {
		args = append(args, "--realm", "realm-"+strconv.Itoa(i+1))
	}
	start := time.Now()
	child, err := c.StartChild(args)
	if err != nil {
		return nil, err
	}
	defer func() {
		if child.Alive() == nil {
			_ = child.Kill()
		}
	}()
	c.Progress("start", 0, 2)
	if err := poll.Until(ctx, func() (bool, error) { return child.Printed("ready in "), child.Alive() }); err != nil {
		return nil, fmt.Errorf("%d realms: %w", b.Realms, err)
	}
	r = &bench.Result{Name: "realms", Objects: b.Realms, Seconds: time.Since(start).Seconds(), Sync: true, Processes: 1, Version: c.Version}
	r.ObjectsPerSecond = float64(b.Realms) / r.Seconds
	pids := []int{child.PID()}
	if r.CPUSeconds, err = bench.CPUSeconds(pids); err != nil {
		return nil, err
	}
	c.Progress("idle", 1, 2)
	if err := b.idle(ctx, r, pids); err != nil {
		return nil, err
	}
	c.Progress("idle", 2, 2)
	return r, child.Stop()
}

// idle measures idle processes.
func (b Realms) idle(ctx context.Context, r *bench.Result, pids []int) error {
	if err := poll.Sleep(ctx, b.Idle/5); err != nil {
		return err
	}
	before, err := bench.CPUSeconds(pids)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := poll.Sleep(ctx, b.Idle); err != nil {
		return err
	}
	after, err := bench.CPUSeconds(pids)
	if err != nil {
		return err
	}
	if !bench.UsageKnown {
		return nil
	}
	r.Detail("idle_percent_of_a_core", 100*(after-before)/time.Since(begun).Seconds())
	resident, err := bench.CurrentRSS(pids)
	if err != nil {
		return err
	}
	r.Detail("idle_resident_MiB", float64(resident)/(1<<20))
	r.PeakRSSBytes, err = bench.PeakRSS(pids)
	return err
}
