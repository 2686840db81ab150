package archiver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/segment"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
)

// work is what an archiver does while it holds the lease.
type work struct {
	*Archiver
	at    places
	began time.Time

	begun    bool           // begin has succeeded
	realm    [16]byte       // zero before the first step
	segments []archive.Item // in the archive, sorted
	pruned   uint64         // commits up to this one were pruned, and are not archived again
	complete uint64         // commits up to this one that the log has are in segments
	spool    *spool         // the segment that is being written; nil for none
	end      eventlog.Chain // behind the last commit of the segment that was put last
	// base is the last verified snapshot, zero for none, and size its size in bytes.
	base archive.Verification
	size int64
	// since is the size in bytes of what was archived after base, and basedAt when base was
	// verified, or the realm began.
	since   int64
	basedAt time.Time
	done    Progress
	looked  looked
	// archiving: archive reads the log, and is not to be called again meanwhile.
	archiving bool
	// readBefore has the names of the segments that were read from the archive completely since
	// they were put.
	readBefore map[string]bool
}

// step archives what there is to archive now. put reports whether it has put a segment.
func (w *work) step(ctx context.Context) (put bool, err error) {
	if w.at.Checkpoint().GetSequence() == 0 {
		return false, nil
	}
	if !w.begun {
		if err := w.begin(ctx); errors.Is(err, errBehind) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	// First, since a store without room for more must not keep it from making room.
	pruned := w.prune(ctx)
	flushed, err := w.flush(ctx)
	if err == nil {
		put, err = w.stepOn(ctx)
	}
	return put || flushed, errors.Join(pruned, err)
}

// stepOn is step after begin and prune.
func (w *work) stepOn(ctx context.Context) (put bool, err error) {
	if put, err = w.archive(ctx, w.at.Checkpoint().GetSequence()); err != nil {
		return put, err
	}
	if w.spool != nil && w.c.Now().Sub(w.spool.began) >= w.limits().SegmentAge {
		put = true
		if err := w.put(ctx); err != nil {
			return put, err
		}
	}
	due := w.snapshotDue() && w.c.Verifying.TryAcquire(1)
	if due {
		err := w.snapshot(ctx)
		w.c.Verifying.Release(1)
		if err != nil {
			return put, err
		}
		w.pruning.at = time.Time{}
	}
	if w.cutDue(put || due) {
		return put, w.cut(ctx)
	}
	return put, nil
}

// begin finds out what the archive has.
func (w *work) begin(ctx context.Context) (err error) {
	realm := [16]byte(w.at.Checkpoint().GetRealmId())
	if w.segments, err = archive.Segments(ctx, w.c.Store, realm); err != nil {
		return err
	}
	if w.pruned, err = archive.PrunedUntil(ctx, w.c.Store, realm); err != nil {
		return err
	}
	snapshot, base, ok, err := archive.VerifiedBefore(ctx, w.c.Store, realm, ^uint64(0), w.skipped)
	if err != nil {
		return err
	}
	w.basedAt = w.began
	if ok {
		w.base, w.size, w.basedAt, w.done.Snapshot = base, snapshot.Entry.Size, base.At, base.Revision
	}
	w.realm = realm
	if err := w.compare(ctx, realm); err != nil {
		return err
	}
	for _, s := range w.segments {
		if s.Last > base.Sequence {
			w.since += s.Entry.Size
		}
	}
	if len(w.segments) > 0 && !ok { // no snapshot was due since the realm began
		first, known, err := w.usable(ctx, w.segments[0], &archive.Fallback{})
		if err != nil {
			return err
		}
		if known {
			w.basedAt = lifecycle.Time(first.First.Time).Time()
		}
	}
	w.begun = true
	w.c.Progress(w.done)
	return nil
}

// list lists the segments again: an operator may have deleted some, which are archived again.
func (w *work) list(ctx context.Context) error {
	segments, err := archive.Segments(ctx, w.c.Store, w.realm)
	if err != nil {
		return err
	}
	pruned, err := archive.PrunedUntil(ctx, w.c.Store, w.realm) // after the list: a prune records this before it deletes
	if err != nil {
		return err
	}
	w.pruned, w.segments, w.complete = pruned, segments, 0
	return nil
}

// openSegment opens a segment and returns its range of commits.
func (w *work) openSegment(ctx context.Context, s archive.Item) (info segment.Info, err error) {
	r, err := archive.OpenSegment(ctx, w.c.Store, s.Entry)
	if err != nil {
		return info, fmt.Errorf("archive %s: segment %s: %w", w.c.Store, s.Entry.Name, err)
	}
	return r.Info(), nil
}

// usable is openSegment, but passes a segment over that cannot be read: known is then false. Verifications, which
// read all segments, fail until it is replaced.
func (w *work) usable(ctx context.Context, s archive.Item, fallback *archive.Fallback) (info segment.Info, known bool, err error) {
	info, err = w.openSegment(ctx, s)
	if err == nil || errors.Is(err, archive.ErrNotFound) { // deleted meanwhile: begin lists again
		return info, err == nil, err
	}
	if err := fallback.From(ctx, err, archive.IsDamagedSegment(err)); err != nil {
		return info, false, err
	}
	w.c.Unusable(s.Entry.Name, advised(err, "delete it, and copy it from another archive (coppice archive copy); while the stream of the log has its commits, they are archived again"))
	return info, false, nil
}

// skipped reports a record of a verification that cannot be used.
func (w *work) skipped(name string, err error) {
	w.c.Unusable(name, advised(err, "delete it"))
}

// advised returns the error for an entry that cannot be used, with what to do if it is damaged. An entry of another
// version is not to be deleted, and its error says what to do.
func advised(err error, what string) error {
	if errors.As(err, new(*archive.VersionError)) || errors.As(err, new(*segment.VersionError)) || errors.As(err, new(*snapshot.VersionError)) {
		return err
	}
	return fmt.Errorf("%w; if it is damaged, %s", err, what)
}

// compare compares the archive with the log: segments, and verified snapshots, from the last one back, until
// one ends with a commit that the log has or that was cut from its stream. The error names all entries behind
// it: they have commits that the log has lost.
func (w *work) compare(ctx context.Context, realm [16]byte) error {
	at, err := w.caughtUp(ctx)
	if err != nil {
		return err
	}
	_, first, err := w.c.Log.Last(ctx)
	if err != nil {
		return err
	}
	var names []string
	why := ""
	// check reports whether an entry of the archive ends with a commit that the log has lost, and
	// then adds it to names.
	check := func(end segment.Point, entry ...string) (lost bool, err error) {
		said := ""
		switch {
		case end.Sequence > at.GetSequence():
			said = fmt.Sprintf("the log ends with commit %d", at.GetSequence())
		case end.Position >= first:
			said, err = w.differs(ctx, end)
		}
		if said != "" {
			names, why = append(names, entry...), said
		}
		return said != "", err
	}
	var fallback archive.Fallback
	read := false
	for _, s := range slices.Backward(w.segments) {
		info, known, err := w.usable(ctx, s, &fallback)
		if err != nil {
			return err
		}
		if !known {
			info.Last.Sequence = s.Last // as its name says
		} else if !read {
			read, w.done.Segments = true, info.Last.Revision
		}
		lost, err := check(info.Last, s.Entry.Name)
		if err != nil {
			return err
		}
		if known && !lost {
			break
		}
	}
	for before := ^uint64(0); ; {
		s, v, ok, err := archive.VerifiedBefore(ctx, w.c.Store, realm, before, w.skipped)
		if err != nil {
			return err
		}
		if read = read || ok; !ok {
			break
		}
		lost, err := check(segment.Point{Sequence: v.Sequence, Position: v.Position, Revision: v.Revision, Checksum: v.Checksum}, s.Entry.Name, archive.VerifiedName(realm, s.Last).String())
		if err != nil {
			return err
		}
		if !lost {
			break
		}
		before = s.Last
	}
	if err := fallback.Err(); err != nil && !read {
		return err // perhaps not of these segments alone
	}
	return w.lost(names, why)
}

// lost returns the error for entries with commits of another history of the realm, nil without names.
func (w *work) lost(names []string, why string) error {
	if len(names) == 0 {
		return nil
	}
	more := ""
	if n := len(names) - maxNamed; n > 0 {
		names, more = names[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("archive %s: the log has lost commits that entries of the archive have: %s; nothing is archived. Move these entries to another archive: %s%s",
		w.c.Store, why, strings.Join(names, ", "), more)
}

// maxNamed is the maximum number of entries that an error names.
const maxNamed = 20

// differs says why the log does not have a commit of the archive; "" if it has it. The error says that this
// cannot be known: a message of the log is missing or damaged, and then the archive may have the only good copy.
func (w *work) differs(ctx context.Context, p segment.Point) (why string, err error) {
	h, checksum, err := w.commit(ctx, p.Position)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		last, _, failed := w.c.Log.Last(ctx)
		if failed == nil && p.Position <= last {
			return "", w.inHole(ctx, p, err)
		}
		if failed != nil {
			return "", errors.Join(err, failed)
		}
		return fmt.Sprintf("the log ends at sequence %d, and commit %d was at %d", last, p.Sequence, p.Position), nil
	case err == nil && (h.Sequence != p.Sequence || checksum != p.Checksum):
		why = fmt.Sprintf("commit %d at sequence %d of the log has checksum %016x, and commit %d of the archive %016x", h.Sequence, p.Position, checksum, p.Sequence, p.Checksum)
	}
	return why, err
}

// inHole returns nil if the log had a commit of the archive at a position that its stream has lost: the
// commit behind it names its checksum, or it is the last one that the state has. Otherwise it returns err.
func (w *work) inHole(ctx context.Context, p segment.Point, err error) error {
	if w.c.State == nil { // see Rest
		return err
	}
	if at := w.c.State.Checkpoint(); at.GetSequence() == p.Sequence && at.GetChecksum() == p.Checksum {
		return nil
	}
	next, _, failed := w.first(ctx, p.Position+1)
	if failed == nil && next.Sequence == p.Sequence+1 && next.Previous == p.Checksum {
		return nil
	}
	return errors.Join(err, failed)
}

// errBehind is returned by begin while the state has not folded the log yet.
var errBehind = errors.New("the state is behind the log")

// maxBehind is the time that begin waits for the state to fold the log.
const maxBehind = 5 * time.Second

// caughtUp waits until the state has the commits that the log has now, and returns its checkpoint.
// If a commit that the archive had before the call is not in that state, the log has lost it. After
// maxBehind the error is errBehind.
func (w *work) caughtUp(ctx context.Context) (*coppicev1.Checkpoint, error) {
	if w.c.State == nil { // see Rest
		return w.at.Checkpoint(), nil
	}
	last, err := w.c.Log.LastCommit(ctx)
	if err != nil {
		return nil, err
	}
	if last == 0 {
		return nil, fmt.Errorf("log of realm %s: the messages at its end are no commits, so that it cannot be compared with the archive; nothing is archived before the next commit", w.c.Realm)
	}
	waiting, cancel := context.WithTimeout(ctx, maxBehind)
	defer cancel()
	var at *coppicev1.Checkpoint
	err = poll.Until(waiting, func() (bool, error) {
		at = w.at.Checkpoint()
		return at.GetSequence() >= last, nil
	})
	if err != nil && ctx.Err() == nil {
		err = errBehind
	}
	return at, err
}

// add adds a segment that was put.
func (w *work) add(name archive.Name, size int64) {
	delete(w.readBefore, name.String())
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
