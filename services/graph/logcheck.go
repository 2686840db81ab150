package graph

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

const (
	// requestTimeout bounds one request to NATS.
	requestTimeout = 5 * time.Second
	// scrubPause is the time between two times that the log is read again.
	scrubPause = 24 * time.Hour
	// warnAgain is the time after which damage is reported again.
	warnAgain = 10 * time.Minute
)

// logBegins is the first sequence that the stream of a log must have.
const logBegins = 1

// checkExtent returns a BrokenError if the stream lacks messages. At a start this is an
// error unless an operator has accepted it: a state could not be rebuilt from the log.
func (r *realm) checkExtent(ctx context.Context) error {
	var extent eventlog.Extent
	if err := r.await(ctx, func(ctx context.Context) (err error) {
		extent, err = r.events.Extent(ctx)
		return err
	}); err != nil {
		return err
	}
	damage := extent.Damage(logBegins)
	r.metrics.damaged(extent.Missed(logBegins))
	if damage == nil {
		return nil
	}
	last := max(damage.Sequence, damage.Last)
	if r.accepts(last) {
		r.log.Error("going on with a log that lacks messages, as --accept-loss says; the state cannot be rebuilt from it", "error", damage)
		return nil
	}
	return fmt.Errorf("realm %s: %w. Restore the stream from a backup, or from a NATS server whose copy has them. To go on with the state in %s, "+
		"which then cannot be rebuilt from the log, start this graph service with --accept-loss %s@%d", r.name, damage, r.dir(), r.name, last)
}

// logCheck looks for damage of the log while the realm runs.
type logCheck struct {
	r        *realm
	scrub    *replay.Scrub
	next     time.Time // when to read the log again, after it was read to its end
	behind   time.Time // since when the stream ends before the state; zero if it does not
	found    uint64    // messages that could not be read when the log was read last
	reported time.Time // when damage was reported
}

// checkLogs runs until ctx ends, or until the log has lost commits that the state has.
func (r *realm) checkLogs(ctx context.Context) error {
	c := &logCheck{r: r, scrub: replay.NewScrub(r.events)}
	tick := time.NewTicker(r.c.CheckLog)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := c.check(ctx); err != nil {
			return err
		}
		c.step(ctx)
	}
}

// check compares the stream with what it must have. Damage behind the state is reported,
// and the realm goes on: its state has the commits. A stream that ends before the state is
// an error, because clients are shown commits that are lost.
func (c *logCheck) check(ctx context.Context) error {
	r := c.r
	at := r.state.Checkpoint().GetPosition() // before the request: the stream must have it
	short, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	extent, err := r.events.Extent(short)
	if err != nil {
		return nil // NATS is not there now, and the log is checked again
	}
	if extent.Last >= at {
		c.behind = time.Time{}
	} else if c.behind.IsZero() {
		c.behind = time.Now()
	}
	if !c.behind.IsZero() && time.Since(c.behind) >= r.events.MaxLag() {
		return &replay.MismatchError{Realm: r.name, Dir: r.dir(), Known: max(r.known(), r.state.Checkpoint().GetSequence()),
			What: fmt.Sprintf("the log has lost its newest commits: its stream ends at sequence %d, and this graph service has seen sequence %d", extent.Last, at)}
	}
	r.metrics.damaged(max(c.found, extent.Missed(logBegins)))
	if damage := extent.Damage(logBegins); damage != nil {
		c.report(damage)
	}
	return nil
}

// step reads a part of the log again.
func (c *logCheck) step(ctx context.Context) {
	if time.Now().Before(c.next) {
		return
	}
	short, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	done, err := c.scrub.Step(short, c.r.state.Checkpoint().GetPosition())
	var broken *eventlog.BrokenError
	if errors.As(err, &broken) {
		c.found = max(broken.Last, broken.Sequence) + 1 - broken.Sequence
		c.report(broken)
	}
	if done {
		c.found = 0
	}
	if done || broken != nil {
		c.scrub, c.next = replay.NewScrub(c.r.events), time.Now().Add(scrubPause)
	}
}

// report logs damage and warns of it, at most once in warnAgain.
func (c *logCheck) report(damage *eventlog.BrokenError) {
	if time.Since(c.reported) < warnAgain {
		return
	}
	c.reported = time.Now()
	const advice = "the state still has the commits, but cannot be rebuilt from the log: restore the stream from a backup, or from a NATS server whose copy has them"
	c.r.log.Error("the log is damaged: "+advice, "error", damage)
	if id, err := uuid.FromBytes(c.r.state.Checkpoint().GetRealmId()); err == nil {
		c.r.warner.Damaged(uid.FromUUID(id), fmt.Sprintf("%v; %s", damage, advice))
	}
}
