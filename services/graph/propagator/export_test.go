package propagator

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
)

// BreakCircles looks once for circles.
func (p *Propagator) BreakCircles(ctx context.Context) (bool, error) { return p.breakCircles(ctx) }

// HintEmpty looks once for what has become empty.
func (p *Propagator) HintEmpty() error { return p.hintEmpty() }

// Examine examines once all owners that are to be examined.
func (p *Propagator) Examine(ctx context.Context) error {
	p.mu.Lock()
	uids := slices.Sorted(maps.Keys(p.examined))
	p.mu.Unlock()
	for _, u := range uids {
		if err := p.examineOne(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// Look does once what Run does again and again, and waits for the walks that
// this has begun.
func (p *Propagator) Look(ctx context.Context) error {
	p.overdue()
	g, ctx := errgroup.WithContext(ctx)
	return errors.Join(p.outcome(ctx, p.round(ctx, g)), g.Wait())
}

// QuotaTotal is how many calls count.
func (p *Propagator) QuotaTotal() (calls int, bytes int64) { return p.quota.total() }
