package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Meter measures the cost of a benchmark between Measure and Stop.
type Meter struct {
	// Before is the stream of the log when the measurement began.
	Before jetstream.StreamState

	d     *Deployment
	log   jetstream.Stream
	cpu   float64
	start time.Time
	end   func() error
}

// Measure begins to measure.
func (d *Deployment) Measure(ctx context.Context) (*Meter, error) {
	js, err := jetstream.New(d.Client.Conn())
	if err != nil {
		return nil, err
	}
	m := &Meter{d: d}
	if m.log, err = js.Stream(ctx, bus.LogStream(d.Client.Realm())); err != nil {
		return nil, fmt.Errorf("the log: %w", err)
	}
	m.Before = m.log.CachedInfo().State
	if d.local() {
		if m.cpu, err = CPUSeconds(d.PIDs()); err != nil {
			return nil, err
		}
	}
	if m.end, err = d.c.Measuring(); err != nil {
		return nil, err
	}
	m.start = time.Now()
	return m, nil
}

// firstSequence returns the sequence of the first commit that is measured.
func (m *Meter) firstSequence() uint64 { return m.Before.LastSeq + 1 }

// Stop ends the measurement and writes it to r. If that was too early, Stop may be
// called again: the figures then include the time since, the profiles do not.
func (m *Meter) Stop(ctx context.Context, r *Result) error {
	err := m.read(ctx, r)
	end := m.end
	m.end = func() error { return nil }
	return errors.Join(err, end())
}

// read writes the measurement up to now to r.
func (m *Meter) read(ctx context.Context, r *Result) error {
	elapsed := time.Since(m.start)
	r.Seconds = elapsed.Seconds()
	r.ObjectsPerSecond = float64(r.Objects) / r.Seconds
	r.Version = m.d.c.Version
	info, err := m.log.Info(ctx)
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	r.Commits, r.BytesLogged = info.State.LastSeq-m.Before.LastSeq, info.State.Bytes-m.Before.Bytes
	if !m.d.local() {
		return nil
	}
	r.Sync, r.Processes = true, len(m.d.PIDs())
	cpu, err := CPUSeconds(m.d.PIDs())
	if err != nil {
		return err
	}
	r.CPUSeconds = cpu - m.cpu
	r.PeakRSSBytes, err = PeakRSS(m.d.PIDs())
	return err
}

// Processes are at rest when they have used less than the share restless of a core
// for the time restful. settling bounds the wait for it.
const (
	restful  = 300 * time.Millisecond
	restless = 0.2
	settling = time.Minute
)

// settle waits until the services are at rest, if they run here, so that the
// compactions of earlier writes are not measured. After a minute it returns even if
// they are not at rest. Where UsageKnown is false it only waits for the time restful.
func (d *Deployment) settle(ctx context.Context) error {
	if !d.local() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		before, err := CPUSeconds(d.PIDs())
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil
			}
			return ctx.Err()
		case <-time.After(restful):
		}
		after, err := CPUSeconds(d.PIDs())
		if err != nil || after-before < restless*restful.Seconds() {
			return err
		}
	}
}
