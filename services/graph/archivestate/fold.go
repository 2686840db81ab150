package archivestate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// Folded says what Fold has read.
type Folded struct {
	Snapshot uint64 // the commit of the snapshot from which the fold began; 0 for none
	Sequence uint64 // the last commit
	Revision uint64
	Events   uint64 // that were folded after the snapshot
}

// GapError says that commits are in no segment of an archive.
type GapError struct {
	Archive     string
	First, Last uint64 // sequences; Last is zero if it is not known
	// Before and Behind are commits next to the missing ones that can be restored, if their entries are undamaged.
	Before, Behind Range
}

// Range are commits, by the sequences of the first and the last one; it is zero if there are none.
type Range struct{ First, Last uint64 }

func (r Range) String() string {
	if r.First == r.Last {
		return fmt.Sprintf("commit %d", r.First)
	}
	return fmt.Sprintf("one of the commits %d to %d", r.First, r.Last)
}

func (e *GapError) Error() string {
	what := fmt.Sprintf("the commits from %d on are", e.First)
	switch {
	case e.Last == e.First:
		what = fmt.Sprintf("commit %d is", e.First)
	case e.Last > 0:
		what = fmt.Sprintf("commits %d to %d are", e.First, e.Last)
	}
	text := fmt.Sprintf("archive %s: %s in no segment; copy the segments from another archive with `coppice archive copy`", e.Archive, what)
	for _, r := range []Range{e.Before, e.Behind} {
		if r != (Range{}) {
			text += fmt.Sprintf(", or restore up to %s", r)
		}
	}
	return text
}

// Has returns a GapError if commits are missing that Fold needs. Only the names of the entries are read.
func (a *Archive) Has(ctx context.Context, last uint64) error {
	_, err := a.Needs(ctx, last)
	return err
}

// Needs returns the entries with which Fold begins if all are undamaged: the newest verified snapshot with its record, and the
// segments since. The error is a GapError if commits are missing. Only the names of the entries are read.
func (a *Archive) Needs(ctx context.Context, last uint64) (entries []archive.Entry, err error) {
	snapshots, verified, err := archive.Snapshots(ctx, a.Store, a.Realm)
	if err != nil {
		return nil, err
	}
	from := uint64(0)
	for _, s := range snapshots {
		if verified[s.Last] && (last == 0 || s.Last <= last) {
			from, entries = s.Last, []archive.Entry{s.Entry}
		}
	}
	if from == 0 {
		return a.segmentsTo(ctx, entries, from, last)
	}
	for e, err := range a.Store.List(ctx, archive.VerifiedName(a.Realm, from).String()) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return a.segmentsTo(ctx, entries, from, last)
}

// segmentsTo adds the segments with the commits after a snapshot up to the commit last.
func (a *Archive) segmentsTo(ctx context.Context, entries []archive.Entry, from, last uint64) ([]archive.Entry, error) {
	chain, err := a.since(ctx, from, last)
	for _, s := range chain {
		entries = append(entries, s.Entry)
	}
	return entries, err
}

// snapshots returns the sequences of the verified snapshots, in ascending order.
func (a *Archive) snapshots(ctx context.Context) (sequences []uint64, err error) {
	snapshots, verified, err := archive.Snapshots(ctx, a.Store, a.Realm)
	for _, s := range snapshots {
		if verified[s.Last] {
			sequences = append(sequences, s.Last)
		}
	}
	return sequences, err
}

// Fold builds the state after a commit from the archive alone, in a directory that is empty or
// does not exist: from the newest snapshot that is not after the commit, and the segments since.
// The commit zero means the last one of the archive. No secret is needed: commits are checked by
// their chain and not by their authentication codes. Fold leaves the state closed.
//
// If commits up to the wanted one are missing, the error is a GapError.
func (a *Archive) Fold(ctx context.Context, dir string, last uint64, c state.Config) (f Folded, err error) {
	until := last
	if last == 0 {
		until = math.MaxUint64
	}
	info, err := a.Load(ctx, dir, 0, until, c)
	if err != nil && !errors.Is(err, ErrNoSnapshot) {
		return f, err
	}
	f.Snapshot = info.Checkpoint.GetSequence()
	segments, err := a.since(ctx, f.Snapshot, last)
	if err != nil {
		return f, err
	}
	s, err := state.Open(dir, c)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	folder := replay.NewFolder(s, 0, eventlog.Unkeyed(""))
	if err := a.fold(ctx, folder, segments, last); err != nil {
		return f, err
	}
	f.Sequence, f.Revision, f.Events = folder.Sequence(), folder.Revision(), folder.Events()
	return f, s.Sync()
}

// since returns the segments with the commits after a snapshot up to the commit last, or to the
// end of the archive if last is zero.
func (a *Archive) since(ctx context.Context, snapshot, last uint64) (chain []archive.Item, err error) {
	segments, err := archive.Segments(ctx, a.Store, a.Realm)
	if err != nil {
		return nil, err
	}
	end := snapshot
	for _, s := range archive.Chain(segments, snapshot+1) {
		if last == 0 || end < last {
			chain, end = append(chain, s), s.Last
		}
	}
	gap := &GapError{Archive: a.Store.String(), First: end + 1, Last: last}
	if end > 0 {
		gap.Before = Range{max(snapshot, 1), end}
	}
	behind := slices.IndexFunc(segments, func(s archive.Item) bool { return s.First > end+1 })
	if behind >= 0 && (last == 0 || last >= segments[behind].First) {
		gap.Last = segments[behind].First - 1
	}
	if end > 0 && end >= last && (last > 0 || behind < 0) {
		return chain, nil
	}
	snapshots, err := a.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range snapshots {
		if last > 0 && s > last { // of those before, none can be used
			gap.Behind = Range{s, s}
			for _, s := range archive.Chain(segments, s+1) {
				gap.Behind.Last = s.Last
			}
			break
		}
	}
	return nil, gap
}

// fold folds segments up to a commit, or all of them if last is zero.
func (a *Archive) fold(ctx context.Context, f *replay.Folder, segments []archive.Item, last uint64) error {
	if len(segments) == 0 || last > 0 && last <= f.Sequence() {
		return nil
	}
	end := segments[len(segments)-1]
	r, err := archive.OpenSegment(ctx, a.Store, end.Entry)
	if err != nil {
		return fmt.Errorf("archive %s: %s: %w", a.Store, end.Entry.Name, err)
	}
	position := r.Info().Last.Position
	if last > 0 {
		for c, err := range r.Commits(last) {
			if err != nil {
				return fmt.Errorf("archive %s: %s: %w", a.Store, end.Entry.Name, err)
			}
			position = c.Position
			break
		}
	}
	source := wholelog.Source{Store: a.Store, Segments: segments}
	if f.Sequence() == 0 {
		return f.FoldFromEmpty(ctx, source, position)
	}
	return f.FoldTo(ctx, source, position)
}
