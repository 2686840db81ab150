package archiver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Parts of a retention. A segment is at most 1/16 of the size or the age, and a snapshot is
// due after a quarter, or after half of the size if the last snapshot is that large. Commits
// are cut when the stream has more than half of the size, or when they have three quarters of
// the age: so the stream stays within the retention while a snapshot is written and verified.
const (
	segmentPart  = 16
	snapshotPart = 4
	keptPart     = 2
)

// The steps of a cut at which Config.Failpoint is called.
const (
	FailVerified  = "cut-verified"  // a snapshot is recorded as verified
	FailAnnounced = "cut-announced" // the position of the cut is announced
	FailCut       = "cut"           // the messages are cut
)

const (
	// lookAgain is the time, in units of Limits.Interval, after which the stream is compared with
	// its retention again if nothing was archived meanwhile.
	lookAgain = 60
	// maxCompared is the maximum time from the comparison of the log with the archive to the
	// request to cut it, including the time for which the machine was suspended. A process that was
	// stopped in between must not cut: the stream may be another one by then.
	maxCompared = 5 * time.Second
)

// limits returns the limits that keep the stream of the log within its retention.
func (w *work) limits() Limits {
	l := w.l
	if w.c.State == nil { // see Rest
		return l
	}
	keep := w.c.State.Settings().LogRetention
	l.SegmentBytes = min(l.SegmentBytes, max(keep.MostBytes()/segmentPart, 1))
	l.SegmentAge = min(l.SegmentAge, keep.MostAge()/segmentPart)
	l.SnapshotBytes = min(l.SnapshotBytes, max(keep.MostBytes()/snapshotPart, 1))
	l.SnapshotBytes = min(max(l.SnapshotBytes, w.size/2), max(keep.MostBytes()/keptPart, 1))
	l.SnapshotAge = min(l.SnapshotAge, keep.MostAge()/snapshotPart)
	return l
}

// looked is when the stream was compared with its retention.
type looked struct {
	at   time.Time
	keep lifecycle.Retention
}

// cutDue reports whether the stream is to be compared with its retention. archived says that
// something was put into the archive since.
func (w *work) cutDue(archived bool) bool {
	return archived || w.looked.keep != w.c.State.Settings().LogRetention || time.Since(w.looked.at) >= lookAgain*w.l.Interval
}

// cut cuts the stream of the log, segment by segment, until it is within its retention, or
// until the next segment must stay. See cuttable.
func (w *work) cut(ctx context.Context) error {
	keep := w.c.State.Settings().LogRetention
	extent, err := w.c.Log.Extent(ctx)
	if err != nil {
		return err
	}
	w.looked = looked{time.Now(), keep}
	w.estimate(&extent)
	size, age := lifecycle.Retention{Bytes: keep.Bytes}, lifecycle.Retention{Age: keep.Age}
	large := func() bool { return DueOf(size, time.Time{}).Is(extent.Bytes, time.Time{}) }
	old := func(t lifecycle.Time) bool { return DueOf(age, t.Time()).Is(0, w.c.Now()) }
	if !large() {
		if keep.Age == 0 {
			return nil
		}
		if h, _, err := w.first(ctx, extent.First); err != nil || !old(h.Time) {
			return err
		}
	}
	newest, base, ok, err := archive.NewestVerified(ctx, w.c.Store, w.realm)
	if err != nil || !ok || base.Sequence > w.c.State.Checkpoint().GetSequence() {
		return err
	}
	if base.Position >= extent.First {
		why, err := w.differs(ctx, segment.Point{Sequence: base.Sequence, Position: base.Position, Checksum: base.Checksum})
		if err == nil && why != "" {
			err = w.lost([]string{newest.Entry.Name, archive.VerifiedName(w.realm, base.Sequence).String()}, why)
		}
		if err != nil {
			return err
		}
	}
	if err := w.list(ctx); err != nil {
		return err
	}
	for {
		end, ok, err := w.cuttable(ctx, base.Sequence, &extent)
		if err != nil || !ok || !large() && !old(end.Time) {
			return err
		}
		if w.c.State.Settings().LogRetention != keep {
			return nil // the next step compares the stream with the one that was set meanwhile
		}
		if !w.isChecked(base) {
			err := w.checkBase(ctx, base)
			if unusable(err) {
				err = fmt.Errorf("the log is not cut before another snapshot is verified: %w", advised(err, w.deleteBase(base)))
			}
			if err != nil {
				return err
			}
			continue // that may have taken long: the log is compared again
		}
		if extent, err = w.cutAt(ctx, end); err != nil {
			return err
		}
	}
}

// estimate corrects w.since. After a start it is the size of compressed segments: estimate raises
// it to the share of the stream's bytes that the messages after the last verified snapshot have.
func (w *work) estimate(e *eventlog.Extent) {
	if e.Messages == 0 || e.Last <= w.base.Position {
		return
	}
	after := min(e.Last-w.base.Position, e.Messages)
	w.since = max(w.since, int64(float64(e.Bytes)*(float64(after)/float64(e.Messages))))
}

// cuttable returns the end of the first segment of the stream. ok is false if the segment must
// stay: it is not in the archive, or for a reason of Place.Stays.
//
// The commits of the log before and after the end are compared with the archive.
func (w *work) cuttable(ctx context.Context, verified uint64, e *eventlog.Extent) (end segment.Point, ok bool, err error) {
	h, _, err := w.first(ctx, e.First)
	if err != nil || h.Sequence == 0 {
		return end, false, err
	}
	chain := archive.Chain(w.segments, max(h.Sequence, w.pruned+1)) // what was pruned may be cut, too
	if len(chain) == 0 || chain[0].Last > verified {
		return end, false, nil
	}
	for _, item := range chain {
		if item.Last > verified {
			break
		}
		// Where the stream has lost the end of a segment, or what follows it, it is cut at a later one.
		if end, ok, err = w.cuttableAt(ctx, item, verified, e); !errors.Is(err, eventlog.ErrNotFound) {
			return end, ok, err
		}
	}
	return end, false, err
}

// cuttableAt is cuttable for the end of one segment. The error wraps eventlog.ErrNotFound if the stream has
// lost its last commit, or the commit behind that.
func (w *work) cuttableAt(ctx context.Context, item archive.Item, verified uint64, e *eventlog.Extent) (end segment.Point, ok bool, err error) {
	info, err := w.openSegment(ctx, item)
	if err != nil {
		return end, false, err
	}
	end = info.Last
	place := Place{End: end, Verified: verified, KeptSince: state.KeptSince(lifecycle.Time(w.c.State.Checkpoint().GetTime())), Last: e.Last}
	if place.Stays() != "" {
		return end, false, nil
	}
	if err := w.readOnce(ctx, item); err != nil {
		return end, false, err
	}
	switch why, err := w.differs(ctx, end); {
	case err != nil:
		return end, false, err
	case why != "":
		return end, false, w.lost([]string{item.Entry.Name}, why)
	}
	next, position, err := w.first(ctx, end.Position+1)
	if err != nil || next.Sequence == 0 {
		return end, false, err
	}
	if err := place.Follows(next, position, e.Gaps > 0); err != nil {
		return end, false, fmt.Errorf("log of realm %s: %w", w.c.Realm, err)
	}
	return end, true, nil
}

// readOnce reads a segment back from the archive, unless this process did so for a verification since it
// was put: the segments up to a verified snapshot may have been deleted and archived again.
func (w *work) readOnce(ctx context.Context, s archive.Item) error {
	if w.readBefore[s.Entry.Name] {
		return nil
	}
	if err := w.verifySegments(ctx, []archive.Entry{s.Entry}); err != nil {
		return err
	}
	w.readBefore[s.Entry.Name] = true
	return nil
}

// first returns the header and the position of the realm's first commit in the stream at a position
// or behind it. The header is zero if there is none up to the last commit of the state.
func (w *work) first(ctx context.Context, from uint64) (h eventlog.Header, position uint64, err error) {
	for at := from; at <= w.c.State.Checkpoint().GetPosition(); {
		before := at
		_, err := w.c.Log.Read(ctx, at, readMessages, readBytes, func(m eventlog.Message) error {
			if m.Position > at && w.c.Log.MaxLag() > 0 {
				lacks, position, err := w.c.Log.Undelivered(ctx, at, m.Position)
				if err == nil && position > 0 {
					err = fmt.Errorf("log of realm %s: the NATS server that answers lacks sequences from %d up to %d, and the leader of the stream has commit %d; nothing is cut", w.c.Realm, at, m.Position-1, lacks.Sequence)
				}
				if err != nil {
					return err
				}
			}
			at = m.Position + 1
			found, foreign := w.c.Log.Keys().Check(m)
			if foreign != "" || found.RealmID != w.realm {
				return nil
			}
			h, position = found, m.Position
			return errEnough
		})
		switch {
		case errors.Is(err, errEnough):
			return h, position, nil
		case err != nil || at == before:
			return h, 0, err
		}
	}
	return h, 0, nil
}

// cutAt cuts the stream behind a commit that was just compared with the archive, and returns
// what the stream has then.
func (w *work) cutAt(ctx context.Context, end segment.Point) (e eventlog.Extent, err error) {
	compared := clock.SinceBoot()
	if err := w.c.Log.Announce(ctx, end.Position, w.c.Now()); err != nil {
		return e, err
	}
	w.c.Failpoint(FailAnnounced)
	if took := clock.SinceBoot() - compared; took > maxCompared {
		return e, fmt.Errorf("log of realm %s: the log was compared with the archive %v ago; it is compared again before it is cut", w.c.Realm, took)
	}
	if err := w.c.Log.Cut(ctx, end.Position); err != nil {
		return e, err
	}
	w.c.Failpoint(FailCut)
	if e, err = w.c.Log.Extent(ctx); err != nil {
		return e, err
	}
	w.c.Logger.Info("the log was cut", "commit", end.Sequence, "revision", end.Revision, "begins-at", e.First, "bytes", e.Bytes)
	return e, nil
}

// commit reads the header and the checksum of the commit at a position.
func (w *work) commit(ctx context.Context, position uint64) (h eventlog.Header, checksum uint64, err error) {
	commit, err := w.c.Log.Get(ctx, position)
	if err == nil {
		h, err = commitcodec.ReadHeader(commit)
	}
	return h, eventlog.Checksum(commit), err
}
