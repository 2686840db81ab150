package archiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/segment"
)

// The steps of a merge at which Config.Failpoint is called.
const (
	FailMerged  = "merged"  // a merged segment is in the archive, and its parts too
	FailCovered = "covered" // one of the parts was deleted
)

// merges is what an Archiver knows of merged segments.
type merges struct {
	// covered has when parts of merged segments were seen first, by name, and damaged the segments that cannot be read.
	covered map[string]time.Time
	damaged map[string]bool
}

// merge makes one segment of many small ones, so that a quiet realm has few entries. The parts are deleted later, by
// deleteCovered: until then, readers that have listed them find them. Only commits that a verified snapshot covers are merged; if
// the log is bounded by age, only those that were cut, so that a merged segment delays no cut.
func (w *work) merge(ctx context.Context) error {
	until := w.base.Sequence
	if w.c.State.Settings().LogRetention.Age > 0 {
		e, err := w.c.Log.Extent(ctx)
		if err != nil {
			return err
		}
		h, _, err := w.first(ctx, e.First)
		if err != nil || h.Sequence == 0 {
			return err
		}
		until = min(until, h.Sequence-1)
	}
	for {
		parts := archive.Mergeable(archive.WithoutOverlap(w.segments), until, w.limits().SegmentBytes, func(s archive.Item) bool { return w.merges.damaged[s.Entry.Name] })
		if parts == nil {
			return nil
		}
		if err := w.mergeParts(ctx, parts); err != nil {
			return fmt.Errorf("segments of the archive are not merged: %w", err)
		}
	}
}

// mergeParts puts the commits of consecutive segments as one into the archive, and reads it back. A damaged part is left
// as it is from then on.
func (w *work) mergeParts(ctx context.Context, parts []archive.Item) (err error) {
	f, err := os.OpenFile(filepath.Join(w.c.Dir, "merged"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	out, err := segment.NewWriter(f)
	if err != nil {
		return err
	}
	for _, p := range parts {
		err := w.copyCommits(ctx, p, out)
		if archive.IsDamagedSegment(err) {
			w.merges.damaged[p.Entry.Name] = true
			w.c.Logger.Warn("a segment of the archive is damaged, and is not merged with others", "error", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	info, err := out.Close()
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return err
	}
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}
	if err := w.c.Store.Put(ctx, name.String(), f, info.Size); err != nil && !errors.Is(err, archive.ErrExists) {
		return err
	}
	w.add(name, info.Size)
	w.c.Failpoint(FailMerged)
	w.c.Logger.Debug("segments of the archive were merged", "segments", len(parts), "first", info.First.Sequence, "last", info.Last.Sequence, "bytes", info.Size)
	return nil
}

// copyCommits adds the commits of a segment to another one.
func (w *work) copyCommits(ctx context.Context, from archive.Item, to *segment.Writer) (err error) {
	in, err := w.c.Store.Open(ctx, from.Entry.Name, 0, from.Entry.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for c, err := range segment.NewScanner(&paced{ctx, w, in}).Commits() {
		if err != nil {
			return fmt.Errorf("archive %s: %s: %w", w.c.Store, from.Entry.Name, err)
		}
		if err := to.Add(c.Position, c.Message); err != nil {
			return fmt.Errorf("archive %s: %s: %w", w.c.Store, from.Entry.Name, err)
		}
	}
	return nil
}

// deleteCovered deletes segments whose commits a merged one has, some time after they were seen first. It reads the merged
// one back before that.
func (w *work) deleteCovered(ctx context.Context) error {
	seen := map[string]time.Time{}
	deleted := false
	for part, whole := range archive.Covered(w.segments) {
		since, known := w.merges.covered[part.Entry.Name]
		if !known {
			since = time.Now()
		}
		if seen[part.Entry.Name] = since; time.Since(since) < w.l.Prune {
			continue
		}
		if err := w.readOnce(ctx, whole); err != nil {
			return err
		}
		if err := w.c.Store.Delete(ctx, part.Entry.Name); err != nil {
			return err
		}
		w.c.Failpoint(FailCovered)
		delete(seen, part.Entry.Name)
		deleted = true
	}
	w.merges.covered = seen
	if deleted {
		return w.list(ctx)
	}
	return nil
}
