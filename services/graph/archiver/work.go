package archiver

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// work is what an archiver does while it holds the lease.
type work struct {
	*Archiver
	began time.Time

	realm    [16]byte       // zero before the first step
	segments []archive.Item // in the archive, sorted
	complete uint64         // commits up to this one that the log has are in segments
	spool    *spool         // the segment that is being written; nil for none
	// base is the last verified snapshot, zero for none, and size its size in bytes.
	base archive.Verification
	size int64
	// since is the size in bytes of what was archived after base, and basedAt when base was
	// verified, or the realm began.
	since   int64
	basedAt time.Time
	done    Progress
}

// step archives what there is to archive now. put reports whether it has put a segment.
func (w *work) step(ctx context.Context) (put bool, err error) {
	if w.c.State.Checkpoint().GetSequence() == 0 {
		return false, nil
	}
	if w.realm == [16]byte{} {
		if err := w.begin(ctx); err != nil {
			return false, err
		}
	}
	if put, err = w.archive(ctx, w.c.State.Checkpoint().GetSequence()); err != nil {
		return put, err
	}
	if w.spool != nil && w.c.Now().Sub(w.spool.began) >= w.l.SegmentAge {
		put = true
		if err := w.put(ctx); err != nil {
			return put, err
		}
	}
	if w.snapshotDue() {
		return put, w.snapshot(ctx)
	}
	return put, nil
}

// begin finds out what the archive has.
func (w *work) begin(ctx context.Context) (err error) {
	realm := [16]byte(w.c.State.Checkpoint().GetRealmId())
	if w.segments, err = archive.Segments(ctx, w.c.Store, realm); err != nil {
		return err
	}
	snapshot, base, ok, err := archive.NewestVerified(ctx, w.c.Store, realm)
	if err != nil {
		return err
	}
	w.basedAt = w.began
	if ok {
		w.base, w.size, w.basedAt, w.done.Snapshot = base, snapshot.Entry.Size, base.At, base.Revision
	}
	if ok {
		if err := w.compareBase(ctx, snapshot, base); err != nil {
			return err
		}
	}
	for _, s := range w.segments {
		if s.Last > base.Sequence {
			w.since += s.Entry.Size
		}
	}
	if len(w.segments) > 0 {
		if err := w.compare(ctx, w.segments[len(w.segments)-1]); err != nil {
			return err
		}
		if !ok { // no snapshot was due since the realm began
			r, err := archive.OpenSegment(ctx, w.c.Store, w.segments[0].Entry)
			if err != nil {
				return fmt.Errorf("archive %s: segment %s: %w", w.c.Store, w.segments[0].Entry.Name, err)
			}
			w.basedAt = lifecycle.Time(r.Info().First.Time).Time()
		}
	}
	w.realm = realm
	w.c.Progress(w.done)
	return nil
}

// compare compares the last segment of the archive with the log.
func (w *work) compare(ctx context.Context, s archive.Item) error {
	r, err := archive.OpenSegment(ctx, w.c.Store, s.Entry)
	if err != nil {
		return fmt.Errorf("archive %s: segment %s: %w", w.c.Store, s.Entry.Name, err)
	}
	end := r.Info().Last
	last, first, err := w.c.Log.Last(ctx)
	if err != nil {
		return err
	}
	w.done.Segments = end.Revision
	at := w.c.State.Checkpoint()
	switch {
	case end.Sequence > at.GetSequence() && last > at.GetPosition(), end.Position < first:
		return nil // this replica does not have the commit yet, or the stream not any more
	case end.Sequence > at.GetSequence():
		return w.another(s, fmt.Sprintf("the log ends with commit %d", at.GetSequence()))
	}
	h, checksum, err := w.commit(ctx, end.Position)
	if err != nil {
		return err
	}
	if h.Sequence != end.Sequence || checksum != end.Checksum {
		return w.another(s, fmt.Sprintf("commit %d of the log has checksum %016x, and that of the segment %016x", end.Sequence, checksum, end.Checksum))
	}
	return nil
}

// compareBase compares the last verified snapshot with the log, if both still have its commit.
func (w *work) compareBase(ctx context.Context, snapshot archive.Item, base archive.Verification) error {
	_, first, err := w.c.Log.Last(ctx)
	if err != nil || base.Sequence > w.c.State.Checkpoint().GetSequence() || base.Position < first {
		return err
	}
	h, checksum, err := w.commit(ctx, base.Position)
	if err == nil && (h.Sequence != base.Sequence || checksum != base.Checksum) {
		err = fmt.Errorf("archive %s: snapshot %s has commits that the log has lost; nothing is archived. Move it and its record %s to another archive",
			w.c.Store, snapshot.Entry.Name, archive.VerifiedName(snapshot.Realm, base.Sequence))
	}
	return err
}

// another returns the error for a segment that has commits of another history of the realm.
func (w *work) another(s archive.Item, why string) error {
	return fmt.Errorf("archive %s: segment %s has commits that the log has lost: %s; nothing is archived. Move the segments with the lost commits to another archive", w.c.Store, s.Entry.Name, why)
}

// add adds a segment that was put.
func (w *work) add(name archive.Name, size int64) {
	w.segments = append(w.segments, archive.Item{Name: name, Entry: archive.Entry{Name: name.String(), Size: size}})
	slices.SortFunc(w.segments, func(a, b archive.Item) int {
		if a.First != b.First {
			return int(min(max(int64(a.First)-int64(b.First), -1), 1))
		}
		return int(min(max(int64(a.Last)-int64(b.Last), -1), 1))
	})
}

// lacking returns the first range of commits from a sequence on that no segment has. last is
// the greatest number if no segment follows.
func lacking(segments []archive.Item, from uint64) (first, last uint64) {
	first, last = from, ^uint64(0)
	if chain := archive.Chain(segments, from); len(chain) > 0 {
		first = chain[len(chain)-1].Last + 1
	}
	for _, s := range segments {
		if s.First > first {
			return first, s.First - 1
		}
	}
	return first, last
}
