package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Point is a point of a realm's past: a revision or, if Revision is zero, a time. The zero Point is
// the last commit.
type Point struct {
	Revision uint64
	Time     lifecycle.Time
}

func (p Point) String() string {
	if p.Revision > 0 {
		return fmt.Sprintf("revision %d", p.Revision)
	}
	return timeText(p.Time)
}

// Commit is a commit of the log, after which a state exists.
type Commit struct {
	Sequence uint64
	Position uint64 // in the stream
	Revision uint64 // the last one of the commit
	Time     lifecycle.Time
	Checksum uint64
}

func commitOf(c *coppicev1.Checkpoint) Commit {
	return Commit{
		Sequence: c.GetSequence(), Position: c.GetPosition(), Revision: c.GetRevision(), Time: lifecycle.Time(c.GetTime()), Checksum: c.GetChecksum(),
	}
}

// skew is how far in the future a time may be and still stand for the present: clocks differ.
const skew = 10 * time.Second

// Find returns the last commit whose first revision is not greater than the point's, or that is not
// later than its time. It reads no state.
//
// The error is that of ctx if ctx has ended, and otherwise a *lifecycle.Error: BadRequest for a point
// in the future or a realm without commits; Expired if the state after the commit cannot be built any
// more, with the oldest revision that can be shown, if the time precedes the realm, or if the revision was lost;
// ServiceUnavailable if the log or the archive cannot be read now.
func (r *Reader) Find(ctx context.Context, p Point) (Commit, error) {
	head := r.c.State.Checkpoint()
	now := max(lifecycle.TimeOf(r.c.Now()), lifecycle.Time(head.GetTime()))
	switch {
	case p.Revision > head.GetRevision():
		return Commit{}, lifecycle.ErrBadRequest("revision %d is in the future; the realm is at revision %d", p.Revision, head.GetRevision())
	case p.Time > now.Add(skew):
		return Commit{}, lifecycle.ErrBadRequest("%s is in the future; the realm's time is %s", timeText(p.Time), timeText(now))
	case head.GetSequence() == 0:
		return Commit{}, lifecycle.ErrBadRequest("realm %s has no past: it has no commit yet", r.c.Realm)
	case p == Point{} || p.Revision == 0 && p.Time >= lifecycle.Time(head.GetTime()):
		return commitOf(head), nil
	}
	c, first, err := r.search(ctx, p)
	if err == nil {
		return r.covered(ctx, p, c)
	}
	if refusal := (*lifecycle.Error)(nil); errors.As(err, &refusal) {
		return Commit{}, refusal
	}
	if !errors.Is(err, errEarlier) && !errors.Is(err, eventlog.ErrCut) { // ErrCut: it was pruned meanwhile, or is in a damaged segment
		return Commit{}, r.unreadable(ctx, err)
	}
	oldest, err := r.oldest(ctx)
	switch {
	case err != nil:
		return Commit{}, r.unreadable(ctx, err)
	case p.Revision > 0 && p.Revision == oldest.Revision: // no commit is left, but the state after it is
		return oldest, nil
	case p.Revision == 0 && oldest.Sequence <= 1 && first.Sequence == 1:
		return Commit{}, expired("at %s the realm had no commit: its first one is of %s", p, timeText(first.Time))
	}
	return Commit{}, r.uncovered(p, oldest)
}

// errEarlier is returned by search if all commits that can be read are behind the point. The
// commit of the result is then the first that can be read.
var errEarlier = errors.New("the point precedes all commits that can be read")

func (r *Reader) search(ctx context.Context, p Point) (found, first Commit, err error) {
	var position uint64
	if p.Revision > 0 {
		position, err = r.c.Log.Seek(ctx, p.Revision)
	} else {
		position, err = r.c.Log.SeekTime(ctx, p.Time)
	}
	if err != nil {
		return found, first, err
	}
	found, header, err := r.from(ctx, position)
	if err == nil && found.Position != position {
		err = r.begins(ctx, position)
	}
	switch {
	case err != nil:
		return found, first, err
	case p.precedes(&header):
		return found, found, errEarlier
	}
	return found, first, r.isLast(ctx, p, found)
}

// precedes reports whether the point is before a commit.
func (p Point) precedes(h *eventlog.Header) bool {
	if p.Revision > 0 {
		return h.FirstRevision > p.Revision
	}
	return h.Time > p.Time
}

// begins returns an error if commits that can be read may precede a position without a commit. A search
// of the log returns the position of a commit, or else the first position that can be read: any other
// means that a NATS server lacks messages.
func (r *Reader) begins(ctx context.Context, position uint64) error {
	e, err := r.c.Log.Readable(ctx)
	if err == nil && position > e.First {
		err = fmt.Errorf("the commit at sequence %d is not delivered: %w", position, errLacks)
	}
	return err
}

// isLast returns an error unless the commit that was found is the last one up to a point: a search in a
// copy of the log that lacks commits finds an older one. There is a later commit, because the
// point precedes the end of the log.
func (r *Reader) isLast(ctx context.Context, p Point, found Commit) error {
	if p.Revision > 0 && found.Revision >= p.Revision {
		return nil
	}
	for at := found.Position + 1; ; {
		next, header, err := r.from(ctx, at)
		switch {
		case err != nil:
			return err
		case next.Sequence <= found.Sequence: // it is skipped: see eventlog.Chain.Skips
			at = next.Position + 1
		case !p.precedes(&header):
			return fmt.Errorf("commit %d was found, and commit %d does not follow %s: %w", found.Sequence, next.Sequence, p, errLacks)
		case p.Revision > 0 && p.Revision < header.FirstRevision-1: // see eventlog.Chain.Leaps
			return expired("%s was lost: the log goes on from revision %d at revision %d", p, found.Revision, header.FirstRevision)
		default:
			return nil
		}
	}
}

// errLacks is wrapped by the error for a search of a log in which commits are missing.
var errLacks = errors.New("a NATS server may lack messages of the log; try again")

// Bounds of one read of the log.
const (
	readMessages = 16
	readBytes    = 1 << 20
)

// from returns the first commit at a position or behind it.
func (r *Reader) from(ctx context.Context, position uint64) (c Commit, header commitcodec.Header, err error) {
	for at := position; ; {
		pending, err := r.c.Log.Read(ctx, at, readMessages, readBytes, func(m eventlog.Message) error {
			at = m.Position + 1
			found, foreign := r.c.Keys.Check(m)
			if foreign == "" {
				var err error
				if foreign, err = r.c.Log.Skips(ctx, m, &found); err != nil {
					return err
				}
			}
			if foreign != "" {
				return nil
			}
			commit, err := m.Open(new([]byte))
			if err != nil {
				return err
			}
			if header, err = commitcodec.ReadHeader(commit); err != nil {
				return err
			}
			events, err := commitcodec.CountEvents(commit)
			if err != nil {
				return err
			}
			c = Commit{
				Sequence: header.Sequence, Position: m.Position, Revision: header.FirstRevision - 1 + events, Time: header.Time, Checksum: commitcodec.Checksum(commit),
			}
			return errFound
		})
		switch {
		case errors.Is(err, errFound):
			return c, header, nil
		case err == nil && pending == 0:
			err = errors.New("the log has no commit from there on")
		}
		if err != nil {
			return c, header, fmt.Errorf("position %d: %w", position, err)
		}
	}
}

// errFound ends a read at the commit that was looked for.
var errFound = errors.New("found")

// covered returns the commit of a point, or a later one of the same revision, and an error if the state
// after it cannot be built.
func (r *Reader) covered(ctx context.Context, p Point, c Commit) (Commit, error) {
	if c.Sequence == r.c.State.Checkpoint().GetSequence() || r.cache.has(r, c.Sequence) {
		return c, nil
	}
	oldest, err := r.oldest(ctx)
	switch {
	case err != nil:
		return Commit{}, r.unreadable(ctx, err)
	case oldest.Sequence == 0:
		return Commit{}, r.uncovered(p, oldest)
	case c.Sequence >= oldest.Sequence:
		return c, nil
	case p.Revision > 0 && p.Revision == oldest.Revision: // commits without events follow, and then the snapshot
		return oldest, nil
	}
	return Commit{}, r.uncovered(p, oldest)
}

// oldest returns the first commit after which the state can be built: the first one of the realm
// or, if that cannot be read any more, that of the first snapshot behind which all commits can
// be read. It is zero if there is none. The time is not set.
func (r *Reader) oldest(ctx context.Context) (Commit, error) {
	e, err := r.c.Log.Readable(ctx)
	if err = cmp.Or(err, e.Unavailable); err != nil {
		return Commit{}, err
	}
	first, _, err := r.from(ctx, max(e.First, 1))
	switch {
	case err != nil:
		return Commit{}, err
	case first.Sequence == 1:
		return first, nil
	case r.c.Archive == nil:
		return Commit{}, nil
	}
	realm := r.realmID()
	snapshots, verified, err := archive.Snapshots(ctx, r.c.Archive, realm)
	if err != nil {
		return Commit{}, err
	}
	for _, s := range snapshots {
		if !verified[s.Last] || s.Last+1 < first.Sequence {
			continue
		}
		v, err := archive.ReadVerification(ctx, r.c.Archive, realm, s.Last)
		if errors.Is(err, archive.ErrNotFound) || archive.IsDamaged(err) {
			continue // it was pruned meanwhile, or cannot be used
		}
		return Commit{Sequence: v.Sequence, Position: v.Position, Revision: v.Revision, Checksum: v.Checksum}, err
	}
	return Commit{}, nil
}

func (r *Reader) uncovered(p Point, oldest Commit) error {
	if oldest.Sequence == 0 {
		return expired("%s cannot be shown: neither the log nor an archive has the realm's first commits, and there is no verified snapshot", p)
	}
	if origin := r.c.State.Realm().Origin; origin != (lifecycle.Origin{}) && oldest.Sequence == origin.Sequence+1 {
		return expired("%s cannot be shown: the realm was restored or replayed from realm id %x and its past begins after commit %d of that; the oldest revision that can be shown is %d. "+
			"To see what was before, restore an earlier commit of that realm id from its archive under another name, with coppice realm restore --to", p, origin.RealmID, origin.Sequence, oldest.Revision)
	}
	return expired("%s cannot be shown: neither the log nor an archive covers it any more; the oldest revision that can be shown is %d", p, oldest.Revision)
}

func expired(format string, args ...any) error {
	return &lifecycle.Error{Reason: api.ErrExpired, Message: fmt.Sprintf(format, args...)}
}

// unreadable returns the error for a failed read of the log or the archive.
func (r *Reader) unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: time.Second,
		Message: fmt.Sprintf("realm %s: the past cannot be read now: %v", r.c.Realm, err),
	}
}

func timeText(t lifecycle.Time) string {
	return t.Time().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}
