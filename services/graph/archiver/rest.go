package archiver

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/datadir"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Rest completes the archive of a log to which nothing is appended any more: it archives the commits
// that no segment has, up to last, whose realm id, sequence and position must be set. Then it reads the
// segments that no verified snapshot covers back from the archive, and returns an error unless all of
// them are undamaged and no commit is missing. It makes no snapshot, and needs no state. Of the
// configuration it needs Realm, Store, Log, Dir, Limits, Now and Logger. After a failure another call
// continues.
func Rest(ctx context.Context, c Config, last *coppicev1.Checkpoint) (err error) {
	c.Progress = func(Progress) {}
	c.Unusable = func(name string, err error) {
		c.Logger.Warn("an entry of the archive cannot be used", "entry", name, "error", err)
	}
	w := &work{Archiver: New(c), at: ended{c.Log, last}, began: c.Now(), readBefore: map[string]bool{}}
	if err := errors.Join(os.RemoveAll(c.Dir), datadir.Make(c.Dir)); err != nil {
		return err
	}
	defer func() {
		w.discard()
		err = errors.Join(err, os.RemoveAll(c.Dir))
	}()
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.archiveAll(ctx, last.GetSequence()); err != nil {
		return err
	}
	if err := errors.Join(w.fits(), w.has(last.GetSequence())); err != nil {
		return err
	}
	if chain := archive.Chain(w.segments, 1); len(chain) == 0 || chain[len(chain)-1].Last < last.GetSequence() {
		// Without the snapshot nothing has the first commits.
		if w.base.Sequence == 0 {
			return fmt.Errorf("archive %s: no segment has commit 1, and no snapshot was verified; copy them from the archive that has them (coppice archive copy)", w.c.Store)
		}
		if err := w.checkBase(ctx, w.base); err != nil {
			return fmt.Errorf("only this snapshot has the first commits: %w", advised(err, "copy it from another archive (coppice archive copy)"))
		}
	}
	return w.readBack(ctx)
}

// archiveAll archives the commits that no segment has, up to last, and leaves no segment open.
func (w *work) archiveAll(ctx context.Context, last uint64) error {
	if _, err := w.archive(ctx, last); err != nil || w.spool == nil {
		return err
	}
	return w.put(ctx)
}

// has returns an error unless segments have all commits up to last, except those that the last verified
// snapshot covers or that were pruned. Commits can be missing because a copy of the log that lags has
// delivered nothing, or because the commits that were cut are in another archive.
func (w *work) has(last uint64) error {
	end := max(w.base.Sequence, w.pruned)
	if chain := archive.Chain(w.segments, end+1); len(chain) > 0 {
		end = chain[len(chain)-1].Last
	}
	if end >= last {
		return nil
	}
	return fmt.Errorf("archive %s: no segment has commit %d, and the last one of the log is %d; if another archive has it, copy it from there (coppice archive copy)", w.c.Store, end+1, last)
}

// fits returns an eventlog.KeyError if the commits that were archived change to a key which this
// process does not have: it cannot read the commits that follow, and the log may have some.
func (w *work) fits() error {
	if w.end.Key.Fingerprint == (eventlog.KeyID{}).Fingerprint {
		return nil // no commit that was archived now changes the key
	}
	return w.c.Log.Keys().Fit(&w.end)
}

// readBack verifies the segments that have commits behind the last verified snapshot.
func (w *work) readBack(ctx context.Context) error {
	var entries []archive.Entry
	for _, s := range w.segments {
		if s.Last > w.base.Sequence {
			entries = append(entries, s.Entry)
		}
	}
	return w.verifySegments(ctx, entries)
}

// verifySegments reads segments back from the archive, and returns an error unless they are undamaged.
func (w *work) verifySegments(ctx context.Context, entries []archive.Entry) error {
	var limited error
	reports, err := archive.Verify(ctx, w.c.Store, entries, snapshot.CheckEntry, func(bytes int64) {
		limited = errors.Join(limited, w.pace(ctx, int(bytes)))
	})
	if err = errors.Join(err, limited); err != nil {
		return err
	}
	for _, r := range reports {
		if len(r.Problems) > 0 {
			return problemOf(w.c.Store, r.Problems)
		}
	}
	return nil
}

// problemOf returns the problem of some segments that matters most, with what to do. What the store could not read comes
// first: it may be undamaged.
func problemOf(store archive.Store, problems []archive.Problem) error {
	p := problems[0]
	for _, other := range problems {
		if other.Kind == archive.ProblemUnread || other.Kind == archive.ProblemGone {
			p = other
			break
		}
	}
	err := fmt.Errorf("archive %s: %s: %w", store, p.Name, p.Err)
	switch p.Kind {
	case archive.ProblemDamaged:
		return fmt.Errorf("%w; delete the entry, and it is archived again while the log has its commits", err)
	case archive.ProblemMissing:
		return fmt.Errorf("%w; copy them from another archive with coppice archive copy", err)
	}
	return err
}

// places says where the commits of a log are.
type places interface {
	// Checkpoint returns the last commit.
	Checkpoint() *coppicev1.Checkpoint
	// Position returns the position of the commit with a sequence.
	Position(ctx context.Context, sequence uint64) (uint64, error)
}

// replica is a state, which follows its log.
type replica struct{ *state.State }

// Position implements places.
func (r replica) Position(_ context.Context, sequence uint64) (uint64, error) {
	return r.State.Position(sequence)
}

// ended is a log that nothing is appended to any more.
type ended struct {
	log  *eventlog.Log
	last *coppicev1.Checkpoint
}

// Checkpoint implements places.
func (e ended) Checkpoint() *coppicev1.Checkpoint { return e.last }

// Position implements places.
func (e ended) Position(ctx context.Context, sequence uint64) (uint64, error) {
	return e.log.SeekCommit(ctx, sequence)
}
