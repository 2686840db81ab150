package propagator

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Calls is what the propagator needs to know of the stream of calls.
type Calls interface {
	// Live returns the durable consumers that take calls now.
	Live(ctx context.Context) (map[string]bool, error)
	// Sweep removes calls from the stream that needed reports false for, if
	// there are many more calls in the stream than the propagator counts.
	Sweep(ctx context.Context, counted int, needed func(u uid.UID, callee string) bool) error
}

// observeEvery is how often the consumers of calls are looked at.
const observeEvery = 2 * time.Second

// observe learns which finalizers and agents have consumers, until ctx ends,
// and removes calls that no object needs from the stream.
func (p *Propagator) observe(ctx context.Context) error {
	if p.c.Calls == nil {
		return nil
	}
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		if p.quota.any() {
			if err := p.observeOnce(ctx); err != nil && ctx.Err() == nil {
				p.c.Log.Debug("cannot look at the consumers of calls; trying again", "realm", p.c.Realm, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (p *Propagator) observeOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, observeEvery)
	defer cancel()
	live, err := p.c.Calls.Live(ctx)
	if err != nil {
		return err
	}
	if p.quota.observe(live) {
		p.wantRefill()
	}
	calls, _ := p.quota.total()
	return p.c.Calls.Sweep(ctx, calls, p.needed)
}

// needed reports whether the object still needs a call. One that it does not
// need it never needs again.
func (p *Propagator) needed(u uid.UID, callee string) bool {
	snap := p.c.State.Snapshot()
	defer snap.Close()
	n := snap.Node(u)
	if snap.Err() != nil {
		return true
	}
	if n == nil || !n.Terminating() {
		return n != nil
	}
	return slices.ContainsFunc(targetsOf(snap.Kinds().OfNode(n), n), func(t target) bool { return t.durable == callee })
}

// wantRefill has calls published that wait as rows, as far as there is room.
func (p *Propagator) wantRefill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refill = true
	p.poke()
}

// refillBeside reads rows beside the rounds, from the first whose call waits, and
// publishes calls until the callees that had room have none.
func (p *Propagator) refillBeside(ctx context.Context, g *errgroup.Group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refilling {
		p.refill = true // once more afterwards
		return
	}
	p.refilling = true
	p.walkBeside(ctx, g, func() error {
		err := p.outcome(ctx, p.refillOnce(ctx))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refilling = false
		if p.refill {
			p.poke()
		}
		return err
	})
}

func (p *Propagator) refillOnce(ctx context.Context) (err error) {
	first, seeking := p.quota.wanted()
	if len(seeking) == 0 {
		return nil
	}
	r := &round{p: p, out: p.newOutbox()}
	defer func() { err = errors.Join(err, r.settleCalls()) }() // also if it failed
	after := uid.UID("")
	for p.quota.seeks(seeking) {
		snap := p.c.State.Snapshot()
		var page []uid.UID
		look := func(u uid.UID, row state.OwedRow) bool {
			if row.Finalize || row.Terminate {
				page = append(page, u)
			}
			after = u
			return len(page) < snapshotRows
		}
		if after == "" {
			snap.EachOwedTo([]uid.UID{first}, func(u uid.UID, row state.OwedRow) { look(u, row) })
			after = first
		}
		snap.EachOwed(after, look)
		fail := r.refillPage(ctx, snap, page)
		if err := closeSnapshot(snap); fail == nil {
			fail = err
		}
		if fail != nil {
			return fail
		}
		if len(page) < snapshotRows {
			return r.flush(ctx) // there are no more rows
		}
	}
	p.quota.resume(seeking, after)
	return r.flush(ctx)
}

func (r *round) refillPage(ctx context.Context, snap *state.Snapshot, page []uid.UID) error {
	snap.Prefetch(page)
	for _, u := range page {
		if n := snap.Node(u); n != nil && n.Terminating() {
			if err := r.calls(ctx, snap, n, false); err != nil {
				return err
			}
		}
	}
	snap.Forget()
	return nil
}

// onlyCalls reports whether nothing but calls are pending in a row.
func onlyCalls(row state.OwedRow) bool {
	row.Finalize, row.Terminate = false, false
	return row.Owed == lifecycle.Owed{}
}
