package archived

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Log is a realm's log with its archive. It is safe for concurrent use.
type Log struct {
	*eventlog.Log
	ctx   context.Context //nolint:containedctx // of the readers of segments, which several calls share
	store archive.Store   // nil for none

	opening singleflight.Group // of segments, by name
	listing singleflight.Group // of the list of segments

	mu       sync.Mutex
	realm    [16]byte // zero until it is known
	segments []archive.Item
	listed   time.Time // when the list of segments was begun; zero if there is none
	received time.Time // when it was complete
	open     []opened  // newest last
	first    struct {
		position, sequence uint64 // of the first message of the stream, and of its first commit
		found              time.Time
	}
}

// opened is a segment that is open.
type opened struct {
	name archive.Name
	*segment.Reader
}

const (
	// beginsTime bounds the time that Last waits for the archive.
	beginsTime = 2 * time.Second
	// listAgain is the time after which the segments are listed again. listWait is the maximum time for
	// which a call waits for the new list; then it uses the old one. An archive of years has
	// many thousands of segments, and its store may list only some of them at a time.
	listAgain = 5 * time.Second
	listWait  = time.Second
	// maxOpen is the maximum number of segments that stay open. Their indexes are in
	// memory.
	maxOpen = 8
)

// New returns a log with its archive. ctx bounds the use of the result. store may be nil:
// then the log is the stream. realm is the realm id, zero if it is not known.
func New(ctx context.Context, log *eventlog.Log, store archive.Store, realm [16]byte) *Log {
	return &Log{Log: log, ctx: ctx, store: store, realm: realm}
}

// Store returns the archive, nil for none.
func (l *Log) Store() archive.Store { return l.store }

// RealmID returns the realm id, which the first commit of the stream names. It is zero if
// the stream has no commit.
func (l *Log) RealmID(ctx context.Context) ([16]byte, error) {
	l.mu.Lock()
	realm := l.realm
	l.mu.Unlock()
	if realm != [16]byte{} {
		return realm, nil
	}
	h, _, err := l.FirstCommit(ctx)
	if err != nil {
		return realm, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.realm = h.RealmID
	return l.realm, nil
}

// FirstCommit returns the header and the position of the first commit that the stream has. The
// header is zero if it has none.
func (l *Log) FirstCommit(ctx context.Context) (h eventlog.Header, position uint64, err error) {
	_, first, err := l.Log.Last(ctx)
	if err != nil {
		return h, 0, err
	}
	for at := first; ; {
		pending, err := l.Log.Read(ctx, at, readMessages, readBytes, func(m eventlog.Message) error {
			if m.Sequence > at && l.MaxLag() > 0 {
				var err error
				if h, position, err = l.Undelivered(ctx, at, m.Sequence); err != nil {
					return err
				}
				if position > 0 {
					return errFound
				}
			}
			at = m.Sequence + 1
			found, foreign := l.Keys().Check(m)
			if foreign != "" {
				return nil
			}
			h, position = found, m.Sequence
			return errFound
		})
		switch {
		case errors.Is(err, errFound):
			return h, position, nil
		case err != nil, pending == 0:
			return h, 0, err
		}
	}
}

// errFound ends a read at the commit that was looked for.
var errFound = errors.New("found")

// Bounds of one read of the stream.
const (
	readMessages = 256
	readBytes    = 1 << 20
)

// Last returns the position of the last message of the stream, and the first position from which
// on all commits can be read, from the archive or the stream. If the archive cannot
// be listed, that is the first of the stream: see Unavailable.
func (l *Log) Last(ctx context.Context) (last, first uint64, err error) {
	e, err := l.Readable(ctx)
	return e.Last, e.First, err
}

// Readable returns what of the log can be read now. If the archive cannot be listed, that is only the stream.
func (l *Log) Readable(ctx context.Context) (e eventlog.Readable, err error) {
	e.Last, e.First, err = l.Log.Last(ctx)
	if err != nil || e.First <= 1 || l.store == nil {
		return e, err
	}
	listing, cancel := context.WithTimeout(ctx, beginsTime)
	archived, older, err := l.begins(listing, e.First)
	cancel()
	if e.Unavailable = err; err == nil {
		e.First, e.OlderSequence, e.OlderRevision = archived, older.Sequence, older.Revision
	}
	return e, ctx.Err()
}

// UnavailableError says that an entry of the archive cannot be read now. Waiting may help: the entry is
// not damaged.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

// unavailable makes an error of a read of a segment an UnavailableError, unless the segment is damaged, is
// gone, or does not have what was looked for.
func unavailable(err error) error {
	var damaged *segment.DamagedError
	var version *segment.VersionError
	if errors.As(err, &damaged) || errors.As(err, &version) || archive.IsDamaged(err) || errors.Is(err, archive.ErrNotFound) || errors.Is(err, segment.ErrOutside) {
		return err
	}
	return &UnavailableError{err}
}

// begins returns the first position from which on all commits can be read, if the stream begins at
// first. If segments reach the stream without a gap, it is the position of their first commit;
// otherwise it is first. older is the last commit of the archive before the gap that precedes this position,
// zero if there is none.
func (l *Log) begins(ctx context.Context, first uint64) (position uint64, older segment.Point, err error) {
	err = l.relisting(ctx, func() error {
		position, older, err = l.beginsListed(ctx, first)
		return err
	})
	return position, older, err
}

// beginsListed is begins with the segments that are listed.
func (l *Log) beginsListed(ctx context.Context, first uint64) (begins uint64, older segment.Point, err error) {
	next, err := l.firstSequence(ctx, first)
	if err == nil && next == 0 && l.MaxLag() > 0 {
		err = fmt.Errorf("log of realm %s: the NATS server that leads the stream has no commit from sequence %d on", l.Realm(), first)
	}
	if err != nil {
		return first, older, err
	}
	segments, err := l.list(ctx, false)
	if err != nil {
		return first, older, err
	}
	if next == 0 { // the stream has lost all its messages
		if next, err = l.after(ctx, segments, first); err != nil || next == 0 {
			return first, older, err
		}
	}
	begins, older, err = l.run(ctx, segments, next)
	if err == nil && begins == 0 && l.listedBefore(first) {
		if segments, err = l.list(ctx, true); err == nil {
			begins, older, err = l.run(ctx, segments, next)
		}
	}
	if err != nil || begins == 0 {
		return first, older, err
	}
	return min(first, begins), older, nil
}

// listedBefore reports whether the segments were listed before the stream was found to begin at a
// position. Then the list may lack segments up to which the stream was cut.
func (l *Log) listedBefore(first uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first.position != first || l.listed.Before(l.first.found)
}

// after returns the sequence of the commit that would follow the segments at a position, zero if the last
// commit of the segments was not just before it.
func (l *Log) after(ctx context.Context, segments []archive.Item, position uint64) (sequence uint64, err error) {
	if len(segments) == 0 {
		return 0, nil
	}
	r, err := l.reader(ctx, segments[len(segments)-1])
	if err != nil || r.Info().Last.Position+1 != position {
		return 0, err
	}
	return r.Info().Last.Sequence + 1, nil
}

// run returns the position of the first commit of the last run of segments without a gap that begins before
// the commit next. It is zero if commits are missing between the run and next, or if there is no run. older is
// the last commit of the segments before the last gap, zero if there is none.
func (l *Log) run(ctx context.Context, segments []archive.Item, next uint64) (begins uint64, older segment.Point, err error) {
	run, end, count := 0, uint64(0), 0 // without a gap
	for ; count < len(segments) && segments[count].First < next; count++ {
		if segments[count].First > end+1 {
			run = count
		}
		end = segments[count].Last
	}
	if end+1 < next {
		run = count
	}
	if run < count {
		r, err := l.reader(ctx, segments[run])
		if err != nil {
			return 0, older, err
		}
		begins = r.Info().First.Position
	}
	older, err = l.lastBefore(ctx, segments[:run])
	return begins, older, err
}

// lastBefore returns the last commit of the segments that can be read: nothing else depends on the others. The error is
// that a segment is gone.
func (l *Log) lastBefore(ctx context.Context, segments []archive.Item) (last segment.Point, err error) {
	for _, s := range slices.Backward(segments) {
		r, err := l.reader(ctx, s)
		switch {
		case err == nil:
			return r.Info().Last, nil
		case errors.Is(err, archive.ErrNotFound):
			return last, err
		case ctx.Err() != nil:
			return last, nil
		}
	}
	return last, nil
}

// firstSequence returns the number of the first commit of the stream, whose first message is at a
// position. It is 0 if there is none.
func (l *Log) firstSequence(ctx context.Context, first uint64) (sequence uint64, err error) {
	l.mu.Lock()
	known := l.first
	l.mu.Unlock()
	if known.position == first && known.sequence > 0 {
		return known.sequence, nil
	}
	h, _, err := l.FirstCommit(ctx)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first.position, l.first.sequence, l.first.found = first, h.Sequence, time.Now()
	return h.Sequence, nil
}

// list returns the segments of the realm, sorted. It lists them if that was not done for a
// while, or if again is set.
func (l *Log) list(ctx context.Context, again bool) ([]archive.Item, error) {
	if l.store == nil {
		return nil, nil
	}
	realm, err := l.RealmID(ctx)
	if err != nil || realm == [16]byte{} {
		return nil, err
	}
	l.mu.Lock()
	segments, received := l.segments, l.received
	l.mu.Unlock()
	switch {
	case again:
		for called := time.Now(); ; {
			list, err := l.listOnce(ctx, realm)
			if err != nil || !list.begun.Before(called) {
				return list.segments, err
			}
		}
	case received.IsZero():
		list, err := l.listOnce(ctx, realm)
		return list.segments, err
	case time.Since(received) < listAgain:
		return segments, nil
	}
	waiting, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	list, err := l.listOnce(waiting, realm)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return segments, nil
	}
	return list.segments, err
}

// relisting calls read, and repeats it with a new list if a segment is gone that was in the list: it was pruned or merged
// with others since.
func (l *Log) relisting(ctx context.Context, read func() error) error {
	for {
		l.mu.Lock()
		before := l.segments
		l.mu.Unlock()
		err := read()
		if !errors.Is(err, archive.ErrNotFound) {
			return err
		}
		if listed, failed := l.list(ctx, true); failed != nil || slices.Equal(listed, before) {
			return errors.Join(err, failed)
		}
	}
}

// segmentList is a list of segments, and when it was begun.
type segmentList struct {
	segments []archive.Item
	begun    time.Time
}

// listOnce lists the segments, or waits for a list that was begun before. It waits no longer than ctx: the
// list goes on, for the calls that follow.
func (l *Log) listOnce(ctx context.Context, realm [16]byte) (segmentList, error) {
	done := l.listing.DoChan("", func() (any, error) {
		begun := time.Now()
		all, err := archive.Segments(l.ctx, l.store, realm)
		if err != nil {
			return segmentList{}, err
		}
		list := segmentList{archive.WithoutOverlap(all), begun}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.segments, l.listed, l.received = list.segments, begun, time.Now()
		return list, nil
	})
	select {
	case <-ctx.Done():
		return segmentList{}, fmt.Errorf("archive %s: it does not list its segments: %w", l.store, ctx.Err())
	case got := <-done:
		return got.Val.(segmentList), got.Err
	}
}

// reader opens a segment, or returns it if it is open. It waits for the archive no longer than
// ctx, and without the lock: others read what is open, or the stream.
func (l *Log) reader(ctx context.Context, item archive.Item) (*segment.Reader, error) {
	if r := l.isOpen(item.Name); r != nil {
		return r, nil
	}
	done := l.opening.DoChan(item.String(), func() (any, error) {
		r, err := archive.OpenSegment(l.ctx, l.store, item.Entry)
		if err != nil {
			return nil, unavailable(fmt.Errorf("archive %s: segment %s: %w", l.store, item.Entry.Name, err))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.open) >= maxOpen {
			l.open = slices.Delete(l.open, 0, 1)
		}
		l.open = append(l.open, opened{item.Name, r})
		return r, nil
	})
	select {
	case <-ctx.Done():
		return nil, &UnavailableError{fmt.Errorf("archive %s: segment %s: it does not answer: %w", l.store, item.Entry.Name, ctx.Err())}
	case got := <-done:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*segment.Reader), nil
	}
}

// isOpen returns the reader of a segment that is open, nil for another one.
func (l *Log) isOpen(name archive.Name) *segment.Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.open, func(o opened) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	o := l.open[i]
	l.open = append(slices.Delete(l.open, i, i+1), o)
	return o.Reader
}

// Get reads the commit at a position: from the archive if the stream begins later, or has a hole
// there. If the stream begins later and the archive does not have the commit either, or cannot be read, the
// error wraps eventlog.ErrCut.
func (l *Log) Get(ctx context.Context, position uint64) ([]byte, error) {
	commit, err := l.Log.Get(ctx, position)
	if !errors.Is(err, eventlog.ErrNotFound) {
		return commit, err
	}
	last, first, failed := l.Log.Last(ctx)
	if failed != nil || position > last {
		return nil, errors.Join(err, failed)
	}
	if position < first {
		err = fmt.Errorf("%w: %w", eventlog.ErrCut, err)
	}
	if l.store == nil {
		return nil, err
	}
	found := false
	failed = l.visit(ctx, position, func(c segment.Commit) error {
		if found = c.Position == position; found {
			if commit, failed = envelope.Open(c.Message); failed != nil {
				return failed
			}
		}
		return errFound
	})
	switch {
	case failed != nil && !errors.Is(failed, errFound) && position >= first:
		return nil, failed // and not that the commit is gone: the archive may have it
	case failed != nil && !errors.Is(failed, errFound):
		return nil, errors.Join(err, failed)
	case !found:
		return nil, err
	}
	return commit, nil
}
