package graph

import (
	"context"
	"errors"
	"fmt"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// findState gives the realm a state from which it can follow the log, if the present one is
// missing, unusable, empty, or ends before the stream begins: the newest snapshot of the archive
// or, without one, a replay.
func (r *opening) findState(ctx context.Context) error {
	if r.state != nil && r.cut == nil && r.seen.GetSequence() > 0 {
		var first uint64
		if err := r.await(ctx, func(ctx context.Context) (err error) {
			_, first, err = r.events.Last(ctx)
			return err
		}); err != nil {
			return err
		}
		if first <= r.seen.GetPosition()+1 {
			return nil
		}
	}
	loaded, err := r.loadSnapshot(ctx)
	switch {
	case err != nil || loaded:
		return err
	case r.cut != nil:
		return fmt.Errorf("%w; its archive %s has no snapshot of it that can be used", r.cut, r.archive)
	case r.state != nil:
		return nil // it is empty, or the archive has the commits behind it
	case r.unusable != nil:
		return r.rebuildState(ctx)
	}
	return r.resetState()
}

// loadSnapshot replaces the state by the newest snapshot of the archive and the log since. The state stays as it
// was unless the log can be read to its end. It returns false if there is no snapshot that can be used.
func (r *opening) loadSnapshot(ctx context.Context) (loaded bool, err error) {
	if r.archive == nil {
		return false, nil
	}
	a, last := &archivestate.Archive{Store: r.archive, Log: r.log}, ^uint64(0)
	if err := r.await(ctx, func(ctx context.Context) (err error) {
		if a.Realm, err = r.wholeLog.RealmID(ctx); err == nil && (r.loss != nil || r.c.Restored[r.name] > 0) {
			last, err = r.events.LastCommit(ctx) // snapshots of lost commits are not those of the log
		}
		return err
	}); err != nil || a.Realm == [16]byte{} {
		return false, err // without a commit there is nothing to load
	}
	r.enter(phaseCatching)
	if r.state != nil {
		if err := r.state.Close(); err != nil {
			return false, r.failure(err)
		}
		r.state = nil
	}
	start := time.Now()
	var info snapshot.Info
	r.log.Info("looking for a snapshot in the archive", "archive", r.archive.String())
	err = replay.ReplaceBy(r.name, r.c.Dir, func(dir string) (err error) {
		load := func(ctx context.Context) (err error) {
			info, err = a.Load(ctx, dir, r.events.Created(), last, r.c.State)
			return err
		}
		if r.cut != nil { // nothing else has the commits
			err = r.awaitArchive(ctx, load)
		} else {
			err = load(ctx)
		}
		if err != nil {
			return err
		}
		loaded = true
		return r.foldRest(ctx, dir)
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, state.ErrLocked):
		return false, fmt.Errorf("realm %s: %w: restart this process", r.name, err)
	case errors.Is(err, errLost):
		return false, r.reopen()
	case loaded:
		return false, err
	case r.cut != nil:
		return false, fmt.Errorf("%w; it cannot start from the archive: %w", r.cut, err)
	default:
		if !errors.Is(err, archivestate.ErrNoSnapshot) {
			r.archiveFailed(a.Realm, "cannot start from a snapshot of the archive; replaying the log", err)
		}
		return false, r.reopen()
	}
	if err := r.open(); err != nil {
		return false, err
	}
	r.log.Info("started from a snapshot of the archive", "archive", r.archive.String(), "commit", info.Checkpoint.GetSequence(),
		"revision", info.Checkpoint.GetRevision(), "bytes", info.Size, "seconds", time.Since(start).Seconds())
	r.rebuilt("a snapshot of the archive")
	return true, nil
}

// errLost says that a snapshot has commits of a loss that an operator has accepted.
var errLost = errors.New("the snapshot has commits that the log has lost")

// foldRest compares a state that was loaded with the log, and folds the rest of the log into it.
func (r *opening) foldRest(ctx context.Context, dir string) (err error) {
	s, err := state.Open(dir, r.c.State)
	if err != nil {
		return r.failure(err)
	}
	r.state = s
	defer func() {
		r.skips.Stop() // it names the realm of the state
		r.state = nil
		err = errors.Join(err, s.Close())
	}()
	cut := r.cut // of the state in whose place the loaded one is put
	r.cut, r.seen = nil, s.Checkpoint()
	// Another graph service, which may have known fewer commits, has recorded the loss.
	if r.loss != nil && r.seen.GetRevision() >= r.loss.Revision-writer.LostAhead/2 {
		r.lossRecorded(r.seen.GetRevision())
	}
	begun := time.Now()
	lost, err := r.compareLog(ctx, func() bool { return time.Since(begun) < r.events.MaxLag() })
	switch {
	case err != nil:
		return err
	case r.cut != nil:
		return r.cut // the commits behind the snapshot are missing too
	case lost:
		r.cut = cut
		return errLost
	}
	f := replay.NewFolder(s, r.events.Created(), r.keys)
	f.Skipped, f.Lost = r.skip, r.lossRecorded
	f.Applied = func(revision uint64, _ []state.Change) { r.metrics.applied(revision) }
	if err := r.catchUp(ctx, f); err != nil {
		return err
	}
	return s.Sync()
}

// reopen opens the state again that loadSnapshot has closed, unless it cannot be used.
func (r *opening) reopen() error {
	if r.unusable == nil && r.seen.GetElidedUntil() == 0 {
		return r.open()
	}
	return nil
}

// open opens a state that is known to be usable.
func (r *opening) open() error {
	s, err := state.Open(r.dir(), r.c.State)
	if err != nil {
		return r.failure(err)
	}
	r.state, r.seen = s, s.Checkpoint()
	return nil
}

// loadInto puts the newest snapshot of the archive that is not after a commit into a directory, and
// returns the sequence of its commit.
func (r *realm) loadInto(ctx context.Context, dir string, last *coppicev1.Checkpoint) (sequence uint64, err error) {
	if r.archive == nil {
		return 0, fmt.Errorf("realm %s: the log does not have its first commits, and without an archive the state cannot be compared with it: start this graph service with --archive", r.name)
	}
	a := &archivestate.Archive{Store: r.archive, Realm: realmID(last), Log: r.log}
	info, err := a.Load(ctx, dir, last.GetStreamCreated(), last.GetSequence(), state.Config{})
	return info.Checkpoint.GetSequence(), err
}
