package propagator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Config is what a propagator needs.
type Config struct {
	Realm string
	State *state.State
	JS    Publisher
	// Queued returns how many messages wait in a queue, or are with a worker.
	Queued func(ctx context.Context, queue string) (uint64, error)
	// Parked reports whether the call of an external finalizer or agent on
	// this subject is parked: then it waits for a person, and is not published.
	Parked func(ctx context.Context, subject string) (bool, error)
	// Unblock proposes to the writer that objects wait for each other in a
	// circle, and reports whether it has unblocked one of them.
	Unblock func(ctx context.Context, circle []uid.UID) (bool, error)
	// Stuck is told of an object that external finalizers or its agent have
	// held since a time; nil for nobody.
	Stuck func(snap *state.Snapshot, n *lifecycle.Node, since lifecycle.Time)
	// Calls is the stream of calls; nil in tests that need none of it.
	Calls Calls
	// Limits bound the calls that wait in the stream; bus.CallLimits without them.
	Limits Limits
	// Unpublished is called with an object of which a call cannot be published; nil
	// for no warning. The row is tried again later.
	Unpublished func(snap *state.Snapshot, n *lifecycle.Node, err error)
	// StuckAfter is after how long; 10 minutes.
	StuckAfter time.Duration
	// Crowded is called for an owner that waits since so many of its dependents,
	// more than lifecycle.MaxExamined, are kept by unknown owners alone; nil to
	// leave that out. It is called once this has lasted for CrowdedAfter, and again
	// while it lasts.
	Crowded func(snap *state.Snapshot, n *lifecycle.Node, dependents uint64, since lifecycle.Time)
	// CrowdedAfter is after how long; 1 minute if zero.
	CrowdedAfter time.Duration
	// ChunkSize is how many uids a chunk of work has, at the most as a rule;
	// 1000. A walk that is long makes larger ones: see longWalk.
	ChunkSize int
	Now       func() time.Time
	Log       *slog.Logger
	// Failpoint is called at the named steps; for tests that end the process there.
	Failpoint func(step string)
}

// The steps at which Config.Failpoint is called.
const (
	FailPublished = "published" // work was published
	FailScan      = "scan"      // in the middle of a walk through an owner's dependents
)

// Bounds of what is remembered.
const (
	maxHints     = 1 << 16
	maxPublished = 1 << 16
	maxWalks     = 4
)

// Propagator publishes work. Its methods are safe for concurrent use.
type Propagator struct {
	c Config

	mu        sync.Mutex
	hints     map[uid.UID]hint
	rescan    bool             // read all rows
	ended     bool             // read the rows that an import session may have held
	holders   map[uid.UID]bool // that have come to hold their dependents: see holder
	due       schedule
	published map[uid.UID]lifecycle.Time // when a row was published last
	walking   map[uid.UID]bool           // owners that are walked; true: once more
	resting   map[uid.UID]lifecycle.Time // owners that are not walked again before: see walk
	held      map[uid.UID]uint64         // objects that wait, and the revision at which they did: see circles
	allHeld   uint64                     // there are too many to remember, since this revision or before; 0 if not
	skipped   map[uid.UID]bool           // rows whose call could not be published: see skip
	stuckFrom uid.UID                    // behind which stuck objects are looked for next
	quota     *quota
	refill    bool             // calls that wait as rows may have room
	refilling bool             // rows are read for them
	evicting  map[uid.UID]bool // containers; whether what is in them is walked: see evict
	wake      chan struct{}
	walks     chan struct{}

	examined   map[uid.UID]*examination // owners to be examined: see examine
	examineAll bool                     // there are too many to remember
	examiner   chan struct{}
}

// hint is a row to look at.
type hint struct {
	again bool // it may have been published before
	// same: what is owed to dependents, and to which, is as it was when it was
	// looked at before.
	same bool
}

// New returns a propagator. It begins by publishing everything that is owed.
func New(c Config) *Propagator {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) {}
	}
	if c.ChunkSize == 0 {
		c.ChunkSize = 1000
	}
	if c.StuckAfter == 0 {
		c.StuckAfter = 10 * time.Minute
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if c.CrowdedAfter == 0 {
		c.CrowdedAfter = time.Minute
	}
	return &Propagator{
		c:         c,
		examined:  map[uid.UID]*examination{},
		examiner:  make(chan struct{}, 1),
		quota:     newQuota(c.Limits),
		hints:     map[uid.UID]hint{},
		holders:   map[uid.UID]bool{},
		rescan:    true,
		due:       newSchedule(),
		published: map[uid.UID]lifecycle.Time{},
		walking:   map[uid.UID]bool{},
		resting:   map[uid.UID]lifecycle.Time{},
		held:      map[uid.UID]uint64{},
		evicting:  map[uid.UID]bool{},
		skipped:   map[uid.UID]bool{},
		wake:      make(chan struct{}, 1),
		walks:     make(chan struct{}, maxWalks),
	}
}

// Notify tells what a commit changed of what is owed. It does not block.
func (p *Propagator) Notify(changes []state.OwedChange) {
	if len(changes) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range changes {
		if c.Holds {
			p.holds(c.UID)
		}
		if !c.Has {
			delete(p.hints, c.UID)
			delete(p.published, c.UID)
			delete(p.held, c.UID)
			delete(p.evicting, c.UID)
			delete(p.resting, c.UID)
			delete(p.skipped, c.UID)
			delete(p.examined, c.UID)
			p.due.drop(c.UID)
			if p.quota.keep(c.UID) {
				p.refill = true
			}
			continue
		}
		p.hint(c.UID, hint{same: !c.Dependents})
	}
	p.poke()
}

// hint remembers a row to look at.
func (p *Propagator) hint(u uid.UID, h hint) {
	if p.rescan {
		return
	}
	if len(p.hints) >= maxHints {
		p.lookAtAll()
		return
	}
	if was, ok := p.hints[u]; ok {
		h = hint{again: h.again || was.again, same: h.same && was.same}
	}
	p.hints[u] = h
}

// lookAtAll has all rows looked at, instead of those that are hinted at.
func (p *Propagator) lookAtAll() {
	p.rescan = true
	clear(p.hints)
	clear(p.holders)
}

// Reconsider has everything looked at again: a kind was registered or withdrawn,
// or the realm's options changed, which may decide what was unknown.
func (p *Propagator) Reconsider() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rescan = true
	p.poke()
}

// SessionClosed has the dependents of absent owners, and what built-in finalizers
// of imported objects do, looked at again: an import session was closed, which may
// have held them.
func (p *Propagator) SessionClosed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.poke()
}

func (p *Propagator) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends.
func (p *Propagator) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.circles(ctx) })
	g.Go(func() error { return p.emptied(ctx) })
	g.Go(func() error { return p.observe(ctx) })
	g.Go(func() error { return p.examinations(ctx) })
	g.Go(func() error {
		for {
			if err := p.outcome(ctx, p.round(ctx, g)); err != nil {
				return err
			}
			if err := p.wait(ctx); err != nil {
				return err
			}
		}
	})
	return g.Wait()
}

// errState is what ends a propagator: its own state cannot be read.
var errState = errors.New("propagator: the state cannot be read")

// outcome deals with the failure of a round or of a walk. What NATS does not
// take for now is owed as before: everything is looked at again, a little
// later.
func (p *Propagator) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errState):
		return err
	}
	p.c.Log.Warn("cannot publish work; trying again", "realm", p.c.Realm, "error", err)
	if err := sleep(ctx, retryPause); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rescan = true
	p.poke()
	return nil
}

// retryPause is how long to wait before publishing again what failed.
const retryPause = 250 * time.Millisecond

// wait waits for hints, or until something that is owed becomes due.
func (p *Propagator) wait(ctx context.Context) error {
	p.mu.Lock()
	due := p.due.next
	p.mu.Unlock()
	var timer <-chan time.Time
	if due != lifecycle.Never {
		timer = time.After(due.Time().Sub(p.c.Now()))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.wake:
	case <-timer:
		p.overdue()
	}
	return nil
}

// overdue has the rows looked at that have become due.
func (p *Propagator) overdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	uids, all := p.due.take(lifecycle.TimeOf(p.c.Now()))
	p.rescan = p.rescan || all
	for _, u := range uids {
		// Other calls of the object may have been published and parked.
		p.hint(u, hint{again: p.skipped[u]})
	}
}

// dueAt remembers when something that is owed because of u becomes due, the earliest.
func (p *Propagator) dueAt(u uid.UID, t lifecycle.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule(u, t)
}

// schedule is dueAt for callers that have locked mu. Run may be waiting for a
// later time, or for none: walks run at the same time.
func (p *Propagator) schedule(u uid.UID, t lifecycle.Time) {
	if p.due.add(u, t) {
		p.poke()
	}
}

// round publishes what is hinted at, or everything.
func (p *Propagator) round(ctx context.Context, g *errgroup.Group) (err error) {
	p.mu.Lock()
	all, ended, hints, holders := p.rescan, p.ended, p.hints, p.holders
	refill := p.refill
	p.rescan, p.ended, p.refill, p.hints, p.holders = false, false, false, map[uid.UID]hint{}, map[uid.UID]bool{}
	p.mu.Unlock()
	r := &round{p: p, g: g, out: p.newOutbox()}
	defer func() { err = errors.Join(err, r.settleCalls()) }() // also if it failed
	if all || ended {
		if err := r.all(ctx, !all); err != nil {
			return err
		}
	}
	if !all && len(hints)+len(holders) > 0 {
		snap := p.c.State.Snapshot()
		for u := range holders {
			if err := r.holder(ctx, snap, u); err != nil {
				_ = snap.Close()
				return err
			}
		}
		for uids := range slices.Chunk(slices.Sorted(maps.Keys(hints)), snapshotRows) {
			if err := r.hinted(ctx, snap, uids, hints); err != nil {
				_ = snap.Close()
				return err
			}
		}
		if err := closeSnapshot(snap); err != nil {
			return err
		}
	}
	if refill {
		p.refillBeside(ctx, g)
	}
	return r.flush(ctx)
}

func closeSnapshot(snap *state.Snapshot) error {
	err := snap.Err()
	if fail := snap.Close(); err == nil {
		err = fail
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errState, err)
	}
	return nil
}

// touch remembers that a row was published.
func (p *Propagator) touch(u uid.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.published) >= maxPublished {
		for other := range p.published { // any: it is published again the sooner
			delete(p.published, other)
			break
		}
	}
	p.published[u] = lifecycle.TimeOf(p.c.Now())
}

// Redrive publishes again what has been owed for long and was not published
// since, and counts what is owed. Work that waits in a full queue is not lost;
// as long as there is some, only what has waited much longer is published.
func (p *Propagator) Redrive(ctx context.Context, r *coppicev1.RedriveRequest) (*coppicev1.RedriveReply, error) {
	age := time.Duration(r.GetMinAgeMilliseconds()) * time.Millisecond
	ages := map[string]time.Duration{}
	for _, queue := range []string{bus.QueueDirty, bus.QueueOrphan, bus.QueueFinish, bus.QueueEvict} {
		ages[queue] = age
		if n, err := p.c.Queued(ctx, queue); err != nil {
			return nil, err
		} else if n > 0 {
			ages[queue] = 10 * age
		}
	}
	now := lifecycle.TimeOf(p.c.Now())
	stuck := p.newStuck(now)
	reply, err := p.count(metricDependents, func(u uid.UID, row state.OwedRow) bool {
		stuck.look(u, row)
		if onlyCalls(row) && p.quota.waits(u) {
			return ctx.Err() == nil // published when there is room: see refill
		}
		least := age
		for _, sort := range Sorts(row) {
			if a, ok := ages[queueOf[sort]]; ok {
				least = max(least, a)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if since := max(row.Since, p.published[u]); since.Add(least) <= now {
			p.hint(u, hint{again: true})
		}
		return ctx.Err() == nil
	})
	p.poke()
	if err == nil {
		err = stuck.tell()
	}
	return reply, err
}
