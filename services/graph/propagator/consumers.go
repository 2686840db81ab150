package propagator

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/uid"
)

// Calls is what the propagator needs to know of the stream of calls.
type Calls interface {
	// Live returns the durable consumers that take calls now.
	Live(ctx context.Context) (map[string]bool, error)
	// Sweep removes calls from the stream that needed reports false for, if the stream
	// has many more calls than the propagator counts.
	Sweep(ctx context.Context, counted int, needed func(u uid.UID, callee string) bool) error
}

// observeEvery is how often the consumers of calls are listed.
const observeEvery = 2 * time.Second

// observe learns which finalizers and agents have consumers, and removes calls that no
// object needs from the stream, until ctx ends.
func (p *Propagator) observe(ctx context.Context) error {
	if p.c.Calls == nil {
		return nil
	}
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		if p.quota.any() {
			if err := p.observeOnce(ctx); err != nil && ctx.Err() == nil {
				p.c.Log.Debug("cannot list the consumers of calls; trying again", "realm", p.c.Realm, "error", err)
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

// needed reports whether the object still needs a call. If it reports false once, it
// never reports true again.
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
