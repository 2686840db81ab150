package propagator

import (
	"context"
	"errors"
)

// BreakCycles searches once for cycles.
func (p *Propagator) BreakCycles(ctx context.Context) (bool, error) { return p.searchCycles(ctx) }

// CheckDraining checks once which containers are empty.
func (p *Propagator) CheckDraining() error {
	b, _ := p.draining.Take(0)
	return p.checkDraining(b)
}

// Examine examines once all owners that are due.
func (p *Propagator) Examine(ctx context.Context) error {
	b, _ := p.examiner.queue.Take(0)
	defer p.examiner.queue.Done(b)
	for _, i := range b.Items {
		if err := p.examiner.examine(ctx, i.Key); err != nil {
			return err
		}
	}
	return nil
}

// Publish does once what Run does repeatedly: a round, and the walks that it adds.
func (p *Propagator) Publish(ctx context.Context) error {
	b, _ := p.rows.Take(0)
	err := p.outcome(ctx, p.runRound(ctx, b))
	p.rows.Done(b)
	for {
		b, ok := p.walks.Take(1)
		if !ok {
			return err
		}
		err = errors.Join(err, p.outcome(ctx, p.runWalk(ctx, b.Items[0].Key)))
		p.walks.Done(b)
	}
}

// QuotaTotal is how many calls count.
func (p *Propagator) QuotaTotal() (calls int, bytes int64) { return p.quota.total() }
