package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

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
func (b Realms) Run(ctx context.Context, d *Deployment) (r *Result, err error) {
	if !d.local() {
		return nil, errElsewhere
	}
	args := []string{"up", "--data", filepath.Join(d.c.Dir, "realms"), "--port", "-1", "--http", ""}
	for i := range b.Realms {
		args = append(args, "--realm", "realm-"+strconv.Itoa(i+1))
	}
	start := time.Now()
	c, err := startChild(args)
	if err != nil {
		return nil, err
	}
	defer func() {
		if c.Alive() == nil {
			_ = c.Kill()
		}
	}()
	d.Progress("start", 0, 2)
	if err := poll.Until(ctx, func() (bool, error) { return c.out.has("ready in "), c.Alive() }); err != nil {
		return nil, fmt.Errorf("%d realms: %w", b.Realms, err)
	}
	r = &Result{Name: "realms", Objects: b.Realms, Seconds: time.Since(start).Seconds(), Sync: true, Processes: 1, Version: d.c.Version}
	r.ObjectsPerSecond = float64(b.Realms) / r.Seconds
	pids := []int{c.PID()}
	if r.CPUSeconds, err = CPUSeconds(pids); err != nil {
		return nil, err
	}
	d.Progress("idle", 1, 2)
	if err := b.idle(ctx, r, pids); err != nil {
		return nil, err
	}
	d.Progress("idle", 2, 2)
	return r, c.Stop()
}

// idle measures idle processes.
func (b Realms) idle(ctx context.Context, r *Result, pids []int) error {
	if err := poll.Sleep(ctx, b.Idle/5); err != nil {
		return err
	}
	before, err := CPUSeconds(pids)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := poll.Sleep(ctx, b.Idle); err != nil {
		return err
	}
	after, err := CPUSeconds(pids)
	if err != nil {
		return err
	}
	if !UsageKnown {
		return nil
	}
	r.Detail("idle_percent_of_a_core", 100*(after-before)/time.Since(begun).Seconds())
	resident, err := CurrentRSS(pids)
	if err != nil {
		return err
	}
	r.Detail("idle_resident_MiB", float64(resident)/(1<<20))
	r.PeakRSSBytes, err = PeakRSS(pids)
	return err
}
