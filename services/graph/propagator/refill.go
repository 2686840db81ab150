package propagator

import (
	"context"
	"errors"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// wantRefill has calls that wait as rows published, until there is no more room. If the
// walks are full, observe asks again.
func (p *Propagator) wantRefill() { p.walks.Add(walk{kind: ofCalls}, 0) }

// refill reads rows, from the first whose call waits, and publishes calls until the
// callees that had room have none.
func (p *Propagator) refill(ctx context.Context) (err error) {
	first, seeking := p.quota.wanted()
	if len(seeking) == 0 {
		return nil
	}
	b := p.newPublisher()
	defer func() { err = errors.Join(err, b.settleCalls()) }() // also if it failed
	after, end := uid.UID(""), false
	err = p.pages(func(snap *state.Snapshot) (bool, error) {
		var page []uid.UID
		visit := func(u uid.UID, row state.WorkRow) bool {
			if row.Finalize || row.Terminate {
				page = append(page, u)
			}
			after = u
			return len(page) < snapshotRows
		}
		if after == "" {
			snap.EachWorkRowOf([]uid.UID{first}, func(u uid.UID, row state.WorkRow) { visit(u, row) })
			after = first
		}
		snap.EachWorkRow(after, visit)
		end = len(page) < snapshotRows
		err := b.refillPage(ctx, snap, page)
		return !end && p.quota.seeks(seeking), err
	})
	if err != nil {
		return err
	}
	if !end {
		p.quota.resume(seeking, after)
	}
	p.quota.sought(seeking)
	return b.flush(ctx)
}

func (b *publisher) refillPage(ctx context.Context, snap *state.Snapshot, page []uid.UID) error {
	snap.Prefetch(page)
	for _, u := range page {
		if n := snap.Node(u); n != nil && n.Terminating() {
			if err := b.calls(ctx, snap, n, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// onlyCalls reports whether nothing but calls are pending in a row.
func onlyCalls(row state.WorkRow) bool {
	row.Finalize, row.Terminate = false, false
	return row.Pending == lifecycle.Pending{}
}
