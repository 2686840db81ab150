package archiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
)

// pruning is when the archive was compared with its retention last.
type pruning struct {
	at   time.Time
	keep lifecycle.Retention
}

// prune merges small segments, and deletes what the archive has beyond the retention of the realm, if that has changed or was not done for a
// while. Before, it lists the segments again: what was deleted meanwhile is archived again.
func (w *work) prune(ctx context.Context) (err error) {
	keep := w.c.Retention()
	if keep == w.pruning.keep && time.Since(w.pruning.at) < w.l.Prune {
		return nil
	}
	w.pruning = pruning{time.Now(), keep}
	defer func() {
		if err != nil {
			w.pruning.at = time.Now().Add(lookAgain*w.l.Interval - w.l.Prune)
			err = fmt.Errorf("the archive is not pruned: %w", err)
		}
	}()
	if err := w.list(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.measure(ctx)) }()
	if err := w.deleteCovered(ctx); err != nil {
		return err
	}
	if keep.All() {
		return w.merge(ctx)
	}
	before, err := w.lackedFrom(ctx)
	if err != nil {
		return err
	}
	skipped := func(name string, err error) {
		w.c.Unusable(name, advised(err, "delete it, and a snapshot with its record"))
	}
	p, err := archive.PlanPrune(ctx, w.c.Store, w.realm, archive.PruneRule{Retention: keep, Now: w.c.Now(), Check: w.check, Skipped: skipped, Before: before})
	if err != nil {
		return err
	}
	if p.Needed {
		w.c.TooLarge(p.KeptBytes, keep)
	}
	if len(p.Delete) == 0 {
		return w.merge(ctx)
	}
	same := func(archive.Entry) error {
		w.c.Failpoint(FailPruned)
		if w.c.Retention() != keep {
			return errRetention
		}
		return nil
	}
	if err = same(archive.Entry{}); err == nil {
		err = p.Do(ctx, w.c.Store, w.c.Now(), same)
		w.pruned = max(w.pruned, p.Until)
		w.segments = slices.DeleteFunc(w.segments, func(s archive.Item) bool { return s.Last <= p.Until })
	}
	if errors.Is(err, errRetention) {
		return w.list(ctx) // the next step plans again
	}
	if err != nil {
		return err
	}
	w.c.Logger.Info("the archive was pruned", "retention", keep.String(), "entries", len(p.Delete), "bytes", p.DeleteBytes, "until-commit", p.Until, "kept-bytes", p.KeptBytes, "kept-snapshot", p.Snapshot)
	return w.merge(ctx)
}

// measure reports the size of the archive.
func (w *work) measure(ctx context.Context) (err error) {
	if w.done.Bytes, _, err = archive.Size(ctx, w.c.Store, w.realm); err == nil {
		w.c.Progress(w.done)
	}
	return err
}

// FailPruned is the step of Config.Failpoint before a pruning, and after each entry that it deletes.
const FailPruned = "pruned"

// errRetention ends a pruning because the retention was changed meanwhile.
var errRetention = errors.New("the retention was changed")

// lackedFrom returns the first commit of the stream if the stream has lost messages: its readers get them from
// segments. Otherwise it returns 0.
func (w *work) lackedFrom(ctx context.Context) (sequence uint64, err error) {
	e, err := w.c.Log.Extent(ctx)
	if err != nil || e.Gaps == 0 {
		return 0, err
	}
	h, _, err := w.first(ctx, e.First)
	return max(h.Sequence, 1), err
}

// check is snapshot.CheckEntry at a limited rate.
func (w *work) check(ctx context.Context, in io.Reader, name archive.Name) ([32]byte, error) {
	return snapshot.CheckEntry(ctx, &paced{ctx, w, in}, name)
}
