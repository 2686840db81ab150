package graph

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// follow folds the log until this process has the lease and has caught up. It
// calls caughtUp each time it has caught up with the log.
func (r *following) follow(ctx context.Context, caughtUp func() error) (*lease.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := r.folder()
	defer r.hub.Abort()
	r.stalled.Store(nil)

	start := time.Now()
	if err := r.catchUp(ctx, f); err != nil {
		return nil, err
	}
	if f.Events() > 0 {
		r.log.Info("caught up with the log", "sequence", f.Sequence(), "revision", f.Revision(), "events", f.Events(), "seconds", time.Since(start).Seconds())
	}
	if err := caughtUp(); err != nil {
		return nil, err
	}
	r.enter(phaseStandby)

	type result struct {
		lease *lease.Lease
		err   error
	}
	acquired := make(chan result, 1)
	stop, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	go func() {
		if err := r.awaitClock(ctx); err != nil {
			acquired <- result{nil, err}
			stopFollowing()
			return
		}
		l, err := r.member.Acquire(ctx, r.name, lease.Options{Attempted: r.attempted})
		acquired <- result{l, err}
		stopFollowing()
	}()
	err := f.Follow(stop, r.wholeLog)
	if stop.Err() == nil || !errors.Is(err, context.Canceled) {
		cancel()
		if got := <-acquired; got.lease != nil {
			_ = got.lease.Release(context.WithoutCancel(ctx))
		}
		return nil, err
	}
	got := <-acquired
	if got.err != nil {
		return nil, got.err
	}
	// The previous writer may have appended until it lost the lease.
	if err := r.catchUp(ctx, f); err != nil {
		_ = got.lease.Release(context.WithoutCancel(ctx))
		return nil, err
	}
	return got.lease, nil
}

// folder returns a folder of the log into the state.
func (r *following) folder() *replay.Folder {
	f := replay.NewFolder(r.state, r.events.Created(), r.keys)
	f.Begin = r.hub.Begin
	f.Applied = func(revision uint64, changes []state.Change) {
		r.hub.Commit(revision, changes)
		r.metrics.applied(revision)
	}
	f.Skipped = r.skip
	f.Lost = r.lossRecorded
	return f
}

// awaitClock waits until the clock is near the NATS server's time. Until then another
// process should have the lease.
func (r *realm) awaitClock(ctx context.Context) error {
	reported := ""
	for {
		err := r.clock.Check()
		if err == nil {
			return nil
		}
		var skew *clock.SkewError
		if errors.As(err, &skew) && skew.Ahead != 0 && reported == "" {
			reported = err.Error()
			r.log.Error("standing by until the clock is right", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(clockPause):
		}
	}
}

// clockPause is the pause between two checks of the clock.
const clockPause = 50 * time.Millisecond

// catchUp folds the log up to its current end.
func (r *withLog) catchUp(ctx context.Context, f *replay.Folder) error {
	var last uint64
	if err := r.await(ctx, func(ctx context.Context) (err error) {
		last, _, err = r.events.Last(ctx)
		return err
	}); err != nil {
		return err
	}
	defer func() { r.end = f.Position() }()
	if last > 0 && f.Sequence() == 0 && r.phase.Load() == phaseCatching { // no client is served yet
		r.log.Info("rebuilding the state from the log", "commits", last)
		return f.FoldFromEmpty(ctx, r.wholeLog, last)
	}
	return f.FoldTo(ctx, r.wholeLog, last)
}

// verify compares a snapshot of the state with its log: from the newest verified snapshot of the
// archive, or from the beginning of the log if there is none, or if full is set.
func (r *following) verify(ctx context.Context, full bool, progress func(sequence, last uint64)) (*coppicev1.VerifyReply, error) {
	begins, err := replay.Begins(ctx, r.wholeLog)
	if err != nil {
		return nil, err
	}
	if origin := r.state.Realm().Origin; full && !begins && origin != (lifecycle.Origin{}) {
		return nil, lifecycle.ErrBadRequest("realm %s: its state began with a snapshot, that of commit %d of realm id %x, of which it was restored or replayed, and is folded from there; verify without full", r.name, origin.Sequence, origin.RealmID)
	}
	if full && !begins {
		return nil, lifecycle.ErrBadRequest("realm %s: the log cannot be folded from its first commit: the stream and the archive of this graph service do not have all commits since; verify without full, from the newest verified snapshot", r.name)
	}
	snap := r.state.Snapshot()
	var from uint64
	begin := func(ctx context.Context, dir string) error {
		loaded, err := r.loadInto(ctx, dir, snap.Checkpoint())
		if err != nil && begins && ctx.Err() == nil {
			return nil
		}
		from = loaded
		return err
	}
	if full || begins && r.archive == nil {
		begin = nil
	}
	v, err := replay.Verify(ctx, snap, r.wholeLog, r.keys, begin, progress)
	if v != nil {
		v.Snapshot = from
	}
	return v, errors.Join(err, snap.Close())
}
