package graph

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/services/graph/clock"
)

// phase is the phase of a realm, as it is shown to operators; the comment of realm says in which part of a run.
type phase string

const (
	phaseWaiting  phase = "waiting for NATS"
	phaseCatching phase = "catching up with the log"
	phaseStandby  phase = "standing by"
	phaseWriter   phase = "writer"
	phaseFailed   phase = "failed"
)

// phases has all phases.
var phases = []phase{phaseWaiting, phaseCatching, phaseStandby, phaseWriter, phaseFailed}

// enter changes the phase.
func (r *realm) enter(p phase) {
	if p == phaseStandby || p == phaseWriter {
		r.failed.Store(nil)
	}
	r.phase.Store(p)
	r.metrics.phase(p)
}

// overdue is the age from which on an append without a known outcome, or a lease that NATS does not
// store, makes the realm not ready.
const overdue = 5 * time.Second

// ready returns nil when the realm follows its log and, as the writer, can append to
// it, and otherwise why not.
func (r *realm) ready() error {
	p := r.phase.Load().(phase)
	if why := r.failed.Load(); why != nil {
		return fmt.Errorf("realm %s: %s, to be tried again: %w", r.name, p, *why)
	}
	if why := r.waits.Load(); why != nil && p == phaseWaiting {
		return fmt.Errorf("realm %s: %s: %w", r.name, p, *why)
	}
	if p != phaseStandby && p != phaseWriter {
		return fmt.Errorf("realm %s: %s", r.name, p)
	}
	if s := r.stalled.Load(); s != nil && p == phaseStandby {
		if age := clock.SinceBoot() - s.since; age > overdue {
			return fmt.Errorf("realm %s: %s, but NATS has not stored its lease for %s, as when most servers of its NATS cluster are away, or a disk of NATS is full: %w", r.name, p, age.Round(time.Second), s.reason)
		}
	}
	if log := r.appends.Load(); log != nil {
		if age, reason := log.Pending(); age > overdue {
			return fmt.Errorf("realm %s: %s, but an append to its log has been waiting for %s, as when most servers of its NATS cluster are away, or a disk of NATS is full: %w",
				r.name, p, age.Round(time.Second), cmp.Or(reason, errNoAnswer))
		}
	}
	return nil
}

var errNoAnswer = errors.New("NATS has not answered")

// stall is why NATS does not store the lease of a realm, and since when.
type stall struct {
	since  time.Duration // clock.SinceBoot
	reason error
}

// attempted notes what became of an attempt to acquire the lease.
func (r *realm) attempted(err error) {
	if err == nil {
		r.stalled.Store(nil)
		return
	}
	s := &stall{clock.SinceBoot(), err}
	if was := r.stalled.Load(); was != nil {
		s.since = was.since
	}
	r.stalled.Store(s)
}
