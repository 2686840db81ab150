package graph

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/archive"
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

// logBegins returns the first sequence that the stream of a log must have, given the first that
// it has. Commits that a verified snapshot of the archive covers may have been cut.
func (r *realm) logBegins(ctx context.Context, first uint64) (uint64, error) {
	known := max(r.begins.Load(), 1)
	if first <= known || r.archive == nil {
		return known, nil
	}
	id, err := r.history.RealmID(ctx)
	if err != nil {
		return 0, err
	}
	_, v, ok, err := archive.NewestVerified(ctx, r.archive, id)
	if err != nil {
		return 0, fmt.Errorf("the log begins at sequence %d, and whether what precedes it is archived cannot be found out: %w", first, err)
	}
	if !ok || first > v.Position+1 {
		// The commits before the stream may be in segments, if not in a snapshot.
		_, readable, err := r.history.Last(ctx)
		if err != nil || readable >= first {
			return known, err
		}
	}
	r.begins.Store(first)
	return first, nil
}

// checkExtent returns a BrokenError if the stream lacks messages. At a start this is an
// error unless an operator has accepted it: a state could not be rebuilt from the log.
func (r *realm) checkExtent(ctx context.Context) error {
	var extent eventlog.Extent
	var begins uint64
	if err := r.await(ctx, func(ctx context.Context) (err error) {
		if extent, err = r.events.Extent(ctx); err == nil {
			begins, err = r.logBegins(ctx, extent.First)
		}
		return err
	}); err != nil {
		return fmt.Errorf("realm %s: %w", r.name, err)
	}
	damage := extent.Damage(begins)
	r.metrics.damaged(extent.Missed(begins))
	if damage == nil {
		return nil
	}
	last := max(damage.Sequence, damage.Last)
	if r.accepts(last) {
		r.log.Error("going on with a log that lacks messages, as --accept-loss says; the state cannot be rebuilt from it", "error", damage)
		return nil
	}
	if extent.First > begins && r.archive == nil {
		return fmt.Errorf("realm %s: %w. If they were archived and cut, name the archive with --archive. Otherwise restore the stream from a backup", r.name, damage)
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
	c := &logCheck{r: r, scrub: replay.NewScrub(r.events, max(r.begins.Load(), 1))}
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
	begins, err := r.logBegins(short, extent.First)
	if err != nil {
		begins = extent.First // the archiver reports that the archive cannot be read
	}
	r.metrics.damaged(max(c.found, extent.Missed(begins)))
	if damage := extent.Damage(begins); damage != nil {
		c.report(damage)
	}
	if c.scrub.At()+1 < begins {
		c.scrub = replay.NewScrub(r.events, begins)
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
		if _, first, err := c.r.events.Last(short); err != nil || first > max(broken.Sequence, broken.Last) {
			return // the messages were cut meanwhile: check moves the scrub on
		}
		c.found = max(broken.Last, broken.Sequence) + 1 - broken.Sequence
		c.report(broken)
	}
	if done {
		c.found = 0
	}
	if done || broken != nil {
		c.scrub, c.next = replay.NewScrub(c.r.events, max(c.r.begins.Load(), 1)), time.Now().Add(scrubPause)
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
