package wholelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Lineage reads a realm's log as a Log does, and before its first commit the logs that it
// continues (lifecycle.Origin), if the archive has their segments. Positions continue: the stream
// of a realm that continues a log begins behind the last commit of that log. The commits of
// those logs are chained (eventlog.Message). It is safe for concurrent use.
//
// Lineage is for clients that read what happened. A state is folded from the Log: the snapshot
// with which the realm begins has what precedes it.
type Lineage struct {
	*Log

	finding singleflight.Group // of parts

	mu      sync.Mutex
	parts   []part       // of the logs before the realm's own, without a gap
	older   archive.Item // the segment before the gap that precedes them; zero for none
	listed  time.Time
	failure error
	own     own // when parts were listed
	// measured has the segments that were opened before: they do not change.
	measured map[archive.Name]segment.Info
}

// own is the first commit of the realm's log.
type own struct{ position, revision uint64 }

// part is a segment of a log that the realm continues, up to a commit.
type part struct {
	archive.Item
	until uint64 // the sequence of the last commit that belongs to the history
	first uint64 // positions
	last  uint64
	// before is the revision before the first commit.
	before   uint64
	previous uint64 // the checksum before the first commit
}

// NewLineage returns the history of a realm whose log is l.
func NewLineage(l *Log) *Lineage { return &Lineage{Log: l, measured: map[archive.Name]segment.Info{}} }

// Last is Log.Last. first is the first position of the oldest log from which on all commits can be
// read.
func (h *Lineage) Last(ctx context.Context) (last, first uint64, err error) {
	e, err := h.Readable(ctx)
	return e.Last, e.First, err
}

// Readable is Log.Readable. The first position is that of the oldest log from which on all commits can be read, and the
// older commit may be one of these logs.
func (h *Lineage) Readable(ctx context.Context) (eventlog.Readable, error) {
	e, err := h.Log.Readable(ctx)
	if err != nil || e.First <= 1 || h.store == nil || e.Unavailable != nil {
		return e, err
	}
	parts, older, err := h.list(ctx, e.First)
	for errors.Is(err, eventlog.ErrCut) { // its first segment is damaged
		before := e.First
		if e, err = h.Log.Readable(ctx); err != nil || e.Unavailable != nil {
			return e, err
		}
		if parts, older, err = h.list(ctx, e.First); e.First == before {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		return e, ctx.Err()
	}
	if e.Unavailable = err; len(parts) > 0 {
		e.First = parts[0].first
	}
	if err == nil && older.Last > 0 {
		h.Log.older(&e, older)
	}
	return e, nil
}

// list returns the parts that precede the realm's log, which begins at a position. It waits for the archive
// for beginsTime, and then returns the parts that were found before: the first time, each segment is opened. older is the segment
// before the gap that precedes them, zero for none.
func (h *Lineage) list(ctx context.Context, first uint64) (parts []part, older archive.Item, err error) {
	h.mu.Lock()
	found, fresh := h.own.position == first && !h.listed.IsZero(), time.Since(h.listed) < listAgain
	parts, older, err = h.parts, h.older, h.failure
	h.mu.Unlock()
	if found && fresh {
		return parts, older, err
	}
	done := h.finding.DoChan("", func() (any, error) {
		parts, older, own, err := h.find(h.ctx, first)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.parts, h.older, h.own, h.failure, h.listed = parts, older, own, err, time.Now()
		return nil, nil
	})
	waiting, cancel := context.WithTimeout(ctx, beginsTime)
	defer cancel()
	select {
	case <-done:
	case <-waiting.Done():
		if ctx.Err() != nil || found {
			return parts, older, cmp.Or(ctx.Err(), err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.own.position == first && !h.listed.IsZero() {
			return h.parts, h.older, h.failure // found meanwhile
		}
		h.failure = &UnavailableError{fmt.Errorf("archive %s: the segments of the log that realm %s continues are still being looked at", h.store, h.Realm())}
		return nil, older, h.failure
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parts, h.older, h.failure
}

// find finds the parts: those of the log that the commit at first continues, then those of the log
// that this one continues, and so on. gap is the segment before the gap that precedes them, zero for none.
func (h *Lineage) find(ctx context.Context, first uint64) (parts []part, gap archive.Item, own own, err error) {
	own.position = first
	var header eventlog.Header
	var origin lifecycle.Origin
	_, err = h.Log.Read(ctx, first, readMessages, readBytes, func(m eventlog.Message) error {
		found, foreign := h.Keys().Check(m)
		if foreign != "" {
			return nil
		}
		header = found
		if origin, err = originOf(m.Data); err != nil {
			return err
		}
		return errFound
	})
	if err != nil && !errors.Is(err, errFound) {
		return nil, gap, own, err
	}
	own.revision = header.FirstRevision
	for previous := header.Previous; origin != (lifecycle.Origin{}); {
		var older []part
		if older, gap, err = h.before(ctx, origin, previous); err != nil || len(older) == 0 {
			return parts, gap, own, err
		}
		parts = append(older, parts...)
		oldest := older[0]
		origin, previous = lifecycle.Origin{}, oldest.previous
		if oldest.First == 1 {
			break
		}
		if origin, err = h.originIn(ctx, oldest); err != nil {
			return parts, gap, own, err
		}
	}
	return parts, gap, own, nil
}

// originOf returns the origin that the commit in a message records, zero for none.
func originOf(message []byte) (lifecycle.Origin, error) {
	commit, err := envelope.Open(message)
	if err != nil {
		return lifecycle.Origin{}, err
	}
	return commitcodec.Origin(commit)
}

// originIn returns the origin that the first commit of a part records, zero for none.
func (h *Lineage) originIn(ctx context.Context, p part) (lifecycle.Origin, error) {
	r, err := h.reader(ctx, p.Item)
	if err != nil {
		return lifecycle.Origin{}, err
	}
	for c, err := range r.Commits(p.First) {
		if err != nil {
			return lifecycle.Origin{}, h.wrap(p.Item, err)
		}
		return originOf(c.Message)
	}
	return lifecycle.Origin{}, nil
}

// before returns the segments of a log that end with the commit of an origin, back to the first gap, and the one before that.
// There are none if the archive does not have that commit. checksum is that of the commit, as the
// commit after it names it; another checksum is an error.
func (h *Lineage) before(ctx context.Context, origin lifecycle.Origin, checksum uint64) (parts []part, gap archive.Item, err error) {
	all, err := archive.Segments(ctx, h.store, origin.RealmID)
	if err != nil {
		return nil, gap, err
	}
	segments := archive.WithoutOverlap(h.undamaged(all))
	end, wanted := origin.Sequence, checksum
	for _, s := range slices.Backward(segments) {
		if s.First > end {
			continue
		}
		if s.Last < end {
			gap = s
			break
		}
		p := part{Item: s, until: end}
		last, err := h.measure(ctx, &p)
		if h.passes(err) {
			return h.before(ctx, origin, wanted) // without it
		}
		if err != nil {
			return parts, gap, err
		}
		if last.Checksum != checksum {
			return parts, gap, h.wrap(s, fmt.Errorf("commit %d has checksum %016x, and the commit after it in the history of realm %s names %016x: it is of another history", end, last.Checksum, h.Realm(), checksum))
		}
		parts = append(parts, p)
		end, checksum = s.First-1, p.previous
	}
	slices.Reverse(parts)
	return parts, gap, nil
}

// measure sets the positions of a part, and the revision and checksum before it. It returns the
// last commit of the part.
func (h *Lineage) measure(ctx context.Context, p *part) (last segment.Point, err error) {
	h.mu.Lock()
	info, known := h.measured[p.Name]
	h.mu.Unlock()
	var r *segment.Reader
	if !known || p.until < info.Last.Sequence {
		if r, err = h.reader(ctx, p.Item); err != nil {
			return last, err
		}
		info = r.Info()
		h.mu.Lock()
		h.measured[p.Name] = info
		h.mu.Unlock()
	}
	p.first, p.before, p.previous, last = info.First.Position, info.Before.Revision, info.Before.Checksum, info.Last
	if p.First == 1 {
		p.first = 1
	}
	if p.until < info.Last.Sequence {
		for c, err := range r.Commits(p.until) {
			if err != nil {
				return last, h.wrap(p.Item, err)
			}
			last = c.Point()
			break
		}
	}
	p.last = last.Position
	return last, nil
}

// Read is Log.Read, also for positions before the realm's log.
func (h *Lineage) Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) (pending uint64, err error) {
	parts, err := h.known(from)
	if err != nil {
		return 0, err
	}
	if len(parts) == 0 {
		return h.Log.Read(ctx, from, limit, maxBytes, visit)
	}
	messages, bytes := 0, 0
	for _, p := range parts {
		r, err := h.reader(ctx, p.Item)
		if err != nil {
			return 0, h.damagedPart(p.Item, err)
		}
		sequence, err := r.AtPosition(from)
		if err != nil {
			return 0, h.damagedPart(p.Item, h.wrap(p.Item, err))
		}
		for c, err := range r.Commits(sequence) {
			switch {
			case err != nil:
				return 0, h.damagedPart(p.Item, h.wrap(p.Item, err))
			case ctx.Err() != nil:
				return 0, ctx.Err()
			case messages >= limit || messages > 0 && bytes+len(c.Message) > maxBytes:
				return 1, nil
			}
			if c.Sequence > p.until {
				break
			}
			messages++
			bytes += len(c.Message)
			if err := visit(eventlog.Message{Position: c.Position, Data: c.Message, Pending: 1, Chained: true}); err != nil {
				return 0, err
			}
			from = c.Position + 1
		}
	}
	return 1, nil
}

// damagedPart returns the error of a read of a part. It wraps eventlog.ErrCut if the part is passed over; then the parts are
// found again.
func (h *Lineage) damagedPart(item archive.Item, err error) error {
	if !h.passes(err) {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listed = time.Time{}
	delete(h.measured, item.Name)
	return fmt.Errorf("%w: %w", eventlog.ErrCut, err)
}

// known returns the parts that have the position from or later ones; none if the realm's own log
// has them. If all parts begin later, the error is that of the last listing; if it succeeded, the
// error wraps eventlog.ErrCut: what precedes the parts was pruned.
func (h *Lineage) known(from uint64) ([]part, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.parts, func(p part) bool { return p.last >= from })
	if i < 0 {
		return nil, nil
	}
	if first := h.parts[0].first; from < first {
		return nil, cmp.Or(h.failure, fmt.Errorf("log of realm %s: sequence %d: %w: the archive begins at sequence %d", h.Realm(), from, eventlog.ErrCut, first))
	}
	return h.parts[i:], nil
}

// Seek is Log.Seek, also for revisions before the realm's log.
func (h *Lineage) Seek(ctx context.Context, revision uint64) (position uint64, err error) {
	if _, _, err := h.Last(ctx); err != nil {
		return 0, err
	}
	h.mu.Lock()
	parts, own := h.parts, h.own.revision
	h.mu.Unlock()
	if len(parts) == 0 || revision >= own {
		return h.Log.Seek(ctx, revision)
	}
	at := parts[0]
	for _, p := range parts {
		if p.before < revision {
			at = p
		}
	}
	r, err := h.reader(ctx, at.Item)
	if err == nil {
		if position, err = r.SeekRevision(revision); err != nil {
			err = h.wrap(at.Item, err)
		}
	}
	if err = h.damagedPart(at.Item, err); errors.Is(err, eventlog.ErrCut) && ctx.Err() == nil {
		return h.Seek(ctx, revision) // without the part
	}
	return min(position, at.last), err
}
