package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

const (
	// requestTimeout bounds one request to NATS.
	requestTimeout = 5 * time.Second
	// warnAgain is the time after which damage is reported again.
	warnAgain = 10 * time.Minute
)

// announced looks for the announcement of a cut if the stream of a log begins later than is known.
func (r *withLog) announced(ctx context.Context, e *eventlog.Extent) error {
	if e.First <= max(r.begins.Load(), 1) {
		return nil
	}
	a, err := r.events.Announced(ctx)
	if err == nil && e.First <= a.Position+1 {
		r.begins.Store(e.First)
		r.metrics.cut(a)
	}
	return err
}

// logBegins returns the first sequence that the stream of a log must have, given what it has.
// Commits may have been cut if that was announced or, for streams that were restored or that
// continue another log, if a verified snapshot or segments of the archive have them.
func (r *withLog) logBegins(ctx context.Context, e *eventlog.Extent) (uint64, error) {
	known, first := max(r.begins.Load(), 1), e.First
	if first <= known || r.archive == nil {
		return known, nil
	}
	id, err := r.wholeLog.RealmID(ctx)
	if err != nil {
		return 0, err
	}
	_, v, ok, err := archive.NewestVerified(ctx, r.archive, id)
	if err != nil {
		return 0, fmt.Errorf("the log begins at sequence %d, and whether what precedes it is archived cannot be found out: %w", first, err)
	}
	if !ok || first > v.Position+1 {
		// The commits before the stream may be in segments, if not in a snapshot.
		_, readable, err := r.wholeLog.Last(ctx)
		if err != nil || readable >= first {
			return known, err
		}
	}
	if e.Messages == 0 { // the newest commit is never cut
		r.log.Error("the stream of the log has lost all its messages; the archive has the commits, and they are read from it", "archive", r.archive.String(), "last", e.Last)
	}
	r.begins.Store(first)
	return first, nil
}

// extent returns what the stream of the log has, and the first sequence that it must have. It waits for NATS and for
// the archive.
func (r *withLog) extent(ctx context.Context) (extent eventlog.Extent, begins uint64, err error) {
	if err = r.await(ctx, func(ctx context.Context) (err error) {
		if extent, err = r.events.Extent(ctx); err == nil {
			err = r.announced(ctx, &extent)
		}
		if err == nil && extent.First > 1 && r.archive != nil {
			_, err = r.wholeLog.RealmID(ctx) // which logBegins does not have to ask for then
		}
		return err
	}); err != nil {
		return extent, 0, err
	}
	err = r.awaitArchive(ctx, func(ctx context.Context) (err error) {
		begins, err = r.logBegins(ctx, &extent)
		return err
	})
	return extent, begins, err
}

// checkExtent is called at the start of a realm. It returns an error that wraps a BrokenError if the
// stream lacks messages that the archive does not have, because a state could not be rebuilt from them; nil
// if an operator has accepted this loss.
func (r *withLog) checkExtent(ctx context.Context) error {
	extent, begins, err := r.extent(ctx)
	if err != nil {
		return fmt.Errorf("realm %s: %w", r.name, err)
	}
	damage := extent.Damage(begins)
	r.metrics.damaged(extent.Missed(begins))
	if damage == nil {
		return nil
	}
	if extent.First <= begins {
		if filled, err := r.fillsHoles(ctx, &extent, damage); filled || err != nil {
			return err
		}
	}
	if r.accepts(max(damage.Position, damage.Last)) {
		r.log.Error("continuing with a log that lacks messages, because of --accept-loss; the state cannot be rebuilt from this log", "error", damage)
		return nil
	}
	return r.refuse(&extent, damage)
}

// refuse returns the error for a log that lacks messages, with what to do.
func (r *withLog) refuse(extent *eventlog.Extent, damage *eventlog.BrokenError) error {
	restore := "restore the stream from a backup"
	if extent.Server != "" {
		restore = "have another NATS server lead the stream (nats stream cluster step-down), and copy it to this one again; if no server has them, " + restore
	}
	if r.archive == nil {
		restore = "name the archive of the realm with --archive, if it has one; otherwise " + restore
	} else {
		restore = "name another archive of the realm with --archive, if it has one, since " + r.archive.String() + " does not have them; otherwise " + restore
	}
	lost := max(damage.Position, damage.Last)
	if at := r.folded(); at == 0 || at < lost && lost < extent.Last { // what follows the gap cannot be folded into it
		return fmt.Errorf("realm %s: %w. To cure it: %s. The state in %s does not have these commits either; start a graph service of the realm whose state has them, if there is one", r.name, damage, restore, r.dir())
	}
	return fmt.Errorf("realm %s: %w. To cure it: %s. To go on with the state in %s, "+
		"which then cannot be rebuilt from the log, start this graph service with --accept-loss %s@%d", r.name, damage, restore, r.dir(), r.name, lost)
}

// folded returns the position of the last commit that the state has; zero if there is no state that can be used.
func (r *withLog) folded() uint64 {
	if r.state == nil {
		return 0
	}
	return r.state.Checkpoint().GetPosition()
}

// logCheck looks for damage of the log while the realm runs.
type logCheck struct {
	r        *following
	scrub    *replay.Scrub
	next     time.Time // when to read the log again, after it was read to its end
	behind   time.Time // since when the stream ends before the state; zero if it does not
	found    uint64    // messages that could not be read when the log was read last
	size     sizeCheck
	disk     diskCheck
	copies   *copyCheck
	counts   *countCheck
	reported map[string]time.Time // when damage was reported, by what was damaged
	unsure   time.Time            // when unknown has logged that
}

// checkLogs runs until ctx ends, or until the log has lost commits that the state has.
func (r *following) checkLogs(ctx context.Context) error {
	c := &logCheck{r: r, size: sizeCheck{r: r}, disk: diskCheck{r: r}, scrub: replay.NewScrub(r.events, max(r.begins.Load(), 1)), reported: map[string]time.Time{}}
	c.copies = &copyCheck{r: r, damaged: map[string]*eventlog.BrokenError{}, ends: copyEnds{}}
	c.counts = newCountCheck(r)
	defer c.copies.close(context.WithoutCancel(ctx))
	defer c.counts.close(context.WithoutCancel(ctx))
	tick := time.NewTicker(r.c.CheckLog)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		c.disk.check()
		if err := c.check(ctx); err != nil {
			return err
		}
		c.step(ctx)
	}
}

// check compares the stream with what it must have. If messages are missing that the state has
// folded, it reports that, and the realm goes on. If the newest is missing, it returns an error: clients
// are shown commits that are lost. It is missing if the stream was purged, or ends before the state, and
// not only because a copy lags (MaxLag).
func (c *logCheck) check(ctx context.Context) error {
	r := c.r
	at := r.state.Checkpoint().GetPosition() // before the request: the stream must have it
	short, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	extent, err := r.events.Extent(short)
	if errors.Is(err, eventlog.ErrGone) {
		return fmt.Errorf("realm %s: stream %s: %w", r.name, bus.LogStream(r.name), err)
	}
	if err != nil {
		return nil // NATS is not there now, and the log is checked again
	}
	var due archiver.Due
	if r.archive != nil {
		due = archiver.DueOf(r.state.Settings().LogRetention, extent.FirstTime)
	}
	r.metrics.extent(&extent, due)
	c.size.check(&extent)
	if extent.Last >= at {
		c.behind = time.Time{}
	} else if c.behind.IsZero() {
		c.behind = time.Now()
	}
	if !c.behind.IsZero() && time.Since(c.behind) >= r.events.MaxLag() {
		return &replay.MismatchError{Realm: r.name, Dir: r.dir(), Known: max(r.tail.Mark().Sequence, r.state.Checkpoint().GetSequence()),
			What: fmt.Sprintf("the log has lost its newest commits: its stream ends at sequence %d, and this graph service has seen sequence %d", extent.Last, at)}
	}
	begins, err := extent.First, r.announced(short, &extent)
	if err == nil {
		begins, err = r.logBegins(short, &extent)
	}
	if err != nil {
		begins = extent.First // it is looked at again
		if ctx.Err() == nil {
			c.unknown(err)
		}
	}
	server, lacking := c.counts.step(short, &extent, begins)
	if lacking != nil {
		c.report("the number of messages of "+server, lacking, adviceCopy)
	}
	r.metrics.damaged(max(c.found, c.copies.missed(), c.counts.short.missed(), extent.Missed(begins)))
	if damage := extent.Damage(begins); damage != nil {
		if r.lostNewest(&extent, begins, at) {
			return r.refuse(&extent, damage)
		}
		c.report(extent.Server, damage, adviceLog)
	}
	if c.scrub.At()+1 < begins {
		c.scrub = replay.NewScrub(r.events, begins)
	}
	return nil
}

// lostNewest reports whether a stream lacks the message at the end of the state, at, which it must have,
// and no operator has accepted that.
func (r *following) lostNewest(extent *eventlog.Extent, begins, at uint64) bool {
	damage := extent.Damage(begins)
	return damage != nil && extent.First > at && begins <= at && !r.accepts(max(damage.Position, damage.Last))
}

// checkNewest is called before this process appends. It returns an error if the stream has lost the newest
// commit of the state, and otherwise has nothing appended if that is lost from now on.
func (r *following) checkNewest(ctx context.Context) error {
	at := r.state.Checkpoint().GetPosition()
	extent, begins, err := r.extent(ctx)
	if err == nil && r.end > 0 {
		err = r.await(ctx, func(ctx context.Context) error { return r.events.Confirm(ctx, r.end) })
	}
	if err != nil {
		return fmt.Errorf("realm %s: %w", r.name, err)
	}
	if r.lostNewest(&extent, begins, at) {
		return r.refuse(&extent, extent.Damage(begins))
	}
	if extent.Last < at {
		return nil // what to do about the announcement depends on why
	}
	return r.retract(ctx)
}

// retract takes back the announcement of a cut that is up to a position behind the end of the log. It waits until that cannot
// be because the server that leads the stream lags.
func (r *following) retract(ctx context.Context) error {
	var seen uint64 // the revision of the announcement
	var since time.Time
	for {
		var revision uint64
		err := r.await(ctx, func(ctx context.Context) (err error) {
			if revision, err = r.events.Beyond(ctx); err != nil {
				seen = 0 // another server may lead the stream now
			}
			return err
		})
		if err != nil || revision == 0 {
			return err
		}
		if revision != seen {
			seen, since = revision, time.Now()
		}
		if time.Since(since) >= r.events.MaxLag() {
			return r.await(ctx, func(ctx context.Context) error { return r.events.Retract(ctx, revision, r.time.Now()) })
		}
		if err := poll.Sleep(ctx, firstRetry); err != nil {
			return err
		}
	}
}

// step reads a part of the log again.
func (c *logCheck) step(ctx context.Context) {
	if c.r.events.MaxLag() > 0 { // on a cluster
		short, cancel := context.WithTimeout(ctx, 2*requestTimeout)
		defer cancel()
		if damage := c.copies.step(short); damage != nil {
			c.report(damage.What, damage, adviceCopy)
		}
		return
	}
	if time.Now().Before(c.next) {
		return
	}
	short, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	done, err := c.scrub.Step(short, c.r.state.Checkpoint().GetPosition())
	var broken *eventlog.BrokenError
	if errors.As(err, &broken) {
		if _, first, err := c.r.events.Last(short); err != nil || first > max(broken.Position, broken.Last) {
			return // the messages were cut meanwhile: check moves the scrub on
		}
		c.found = max(broken.Last, broken.Position) + 1 - broken.Position
		c.report("", broken, adviceLog)
	}
	if done {
		c.found = 0
	}
	if done || broken != nil {
		c.scrub, c.next = replay.NewScrub(c.r.events, max(c.r.begins.Load(), 1)), time.Now().Add(c.r.c.ScrubLog)
	}
}

// What to do about damage.
const (
	adviceLog  = "the state still has the commits, but cannot be rebuilt from the stream: the commits are read from the archive if its segments have them; otherwise restore the stream from a backup, or from a NATS server whose copy has them"
	adviceCopy = "before any other server is stopped for long or replaced, stop this one, delete its directory of this stream, and start it: it copies the stream from the others"
)

// unknown logs that it cannot be found out whether the first messages of the stream were cut, at most once in warnAgain.
func (c *logCheck) unknown(err error) {
	if time.Since(c.unsure) >= warnAgain {
		c.unsure = time.Now()
		c.r.log.Warn("the log begins later than it did, and whether that is because of a cut cannot be found out; it is tried again", "error", err)
	}
}

// report logs damage and warns of it, at most once in warnAgain for the same thing.
func (c *logCheck) report(of string, damage error, advice string) {
	if time.Since(c.reported[of]) < warnAgain {
		return
	}
	maps.DeleteFunc(c.reported, func(_ string, at time.Time) bool { return time.Since(at) >= warnAgain })
	c.reported[of] = time.Now()
	c.r.log.Error("the log is damaged: "+advice, "error", damage)
	if id, err := uuid.FromBytes(c.r.state.Checkpoint().GetRealmId()); err == nil {
		c.r.warner.Damaged(uid.FromUUID(id), fmt.Sprintf("%v; %s", damage, advice))
	}
}
