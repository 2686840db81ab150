package archiver

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
)

// prune deletes what the archive has beyond the retention of the realm, if that was not done for a
// while. Before, it lists the segments again: what was deleted meanwhile is archived again.
func (w *work) prune(ctx context.Context) error {
	if time.Since(w.prunedAt) < w.l.Prune {
		return nil
	}
	w.prunedAt = time.Now()
	if err := w.list(ctx); err != nil {
		return err
	}
	r := w.c.Retention()
	if r.All() {
		return nil
	}
	p, err := archive.PlanPrune(ctx, w.c.Store, w.realm, r, w.c.Now(), w.check)
	if err != nil {
		return fmt.Errorf("the archive is not pruned: %w", err)
	}
	if len(p.Delete) == 0 {
		return nil
	}
	err = p.Do(ctx, w.c.Store, w.c.Now(), func(archive.Entry) {})
	w.pruned = max(w.pruned, p.Until)
	w.segments = slices.DeleteFunc(w.segments, func(s archive.Item) bool { return s.Last <= p.Until })
	if err != nil {
		return fmt.Errorf("the archive is not pruned: %w", err)
	}
	w.c.Logger.Info("the archive was pruned", "retention", r.String(), "entries", len(p.Delete), "bytes", p.DeleteBytes, "until-commit", p.Until, "kept-bytes", p.KeptBytes, "kept-snapshot", p.Snapshot)
	return nil
}

// check is snapshot.CheckEntry at a limited rate.
func (w *work) check(ctx context.Context, in io.Reader, name archive.Name) ([32]byte, error) {
	return snapshot.CheckEntry(ctx, &paced{ctx, w, in}, name)
}

// paced is a reader at a limited rate.
type paced struct {
	ctx context.Context //nolint:containedctx // io.Reader has none
	w   *work
	in  io.Reader
}

func (p *paced) Read(b []byte) (n int, err error) {
	n, err = p.in.Read(b)
	if limited := p.w.pace(p.ctx, n); limited != nil {
		return n, limited
	}
	return n, err
}
