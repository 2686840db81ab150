package graph

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-gc/coppice/services/graph/state"
)

// The pauses before a realm is tried again.
const (
	firstRetry   = time.Second
	longestRetry = time.Minute
	longestFull  = 4 * time.Second // where the disk is full
)

// runRealm runs a realm until ctx ends, or it fails while no other works.
func (s *Service) runRealm(ctx context.Context, r *realm) error {
	said := ""
	var full error // why it has failed last if that is a full disk
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		begun := time.Now()
		err := r.run(ctx)
		if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) || err == nil {
			return nil
		}
		if errors.Is(err, errRecorded) {
			continue
		}
		if r.failed.Swap(&err) == nil {
			full = nil // it has worked meanwhile
		}
		r.enter(phaseFailed)
		r.metrics.all.failures.WithLabelValues(r.name).Inc()
		if time.Since(begun) > longestRetry {
			pause = firstRetry
		}
		if s.c.OutlastFullDisk && outOfSpace(err) {
			full, pause = err, min(pause, longestFull)
		} else if errors.Is(err, state.ErrDamaged) && !errors.As(err, new(*unusableError)) {
			pause = firstRetry // the next run rebuilds the state
		} else if !s.works() {
			return cmp.Or(full, err) // a state that could not be closed then cannot be opened
		}
		if err.Error() != said {
			said = err.Error()
			r.log.Error("the realm has failed; it is tried again, and the other realms go on", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// outOfSpace reports whether a state has failed as the disk is full. Pebble keeps the
// cause of some failures in their texts only.
func outOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), syscall.ENOSPC.Error())
}

// works reports whether any realm has not failed.
func (s *Service) works() bool {
	return slices.ContainsFunc(s.all(), func(r *realm) bool { return r.failed.Load() == nil })
}
