package wholelog

import (
	"context"
	"errors"
	"fmt"
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
	damaged map[archive.Name]time.Time
	passed  int                           // how often a segment was passed over
	report  func(entry string, err error) // see PassOver
}

// opened is a segment that is open.
type opened struct {
	name archive.Name
	*segment.Reader
}

const (
	// beginsTime bounds the time that Readable waits for the archive.
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
	return &Log{Log: log, ctx: ctx, store: store, realm: realm, damaged: map[archive.Name]time.Time{}}
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
			if m.Position > at && l.MaxLag() > 0 {
				var err error
				if h, position, err = l.Undelivered(ctx, at, m.Position); err != nil {
					return err
				}
				if position > 0 {
					return errFound
				}
			}
			at = m.Position + 1
			found, foreign := l.Keys().Check(m)
			if foreign != "" {
				return nil
			}
			h, position = found, m.Position
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
	defer cancel()
	archived, before, err := l.begins(listing, e.First)
	if e.Unavailable = err; err != nil {
		return e, ctx.Err()
	}
	if e.First = archived; len(before) > 0 {
		l.older(&e, before[len(before)-1])
	}
	return e, ctx.Err()
}

// older sets the segment before the gap that precedes what can be read.
func (l *Log) older(e *eventlog.Readable, s archive.Item) {
	e.OlderSequence = s.Last
	e.OlderRevision = func(ctx context.Context) uint64 {
		opening, cancel := context.WithTimeout(ctx, beginsTime)
		defer cancel()
		r, err := l.reader(opening, s)
		if err != nil {
			return 0
		}
		return r.Info().Last.Revision
	}
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
// otherwise it is first. before are the segments before the gap that precedes this position.
func (l *Log) begins(ctx context.Context, first uint64) (position uint64, before []archive.Item, err error) {
	err = l.relisting(ctx, l.passes, func() error {
		position, before, err = l.beginsListed(ctx, first)
		return err
	})
	return position, before, err
}

// beginsListed is begins with the segments that are listed.
func (l *Log) beginsListed(ctx context.Context, first uint64) (begins uint64, before []archive.Item, err error) {
	next, err := l.firstSequence(ctx, first)
	if err == nil && next == 0 && l.MaxLag() > 0 {
		err = fmt.Errorf("log of realm %s: the NATS server that leads the stream has no commit from sequence %d on", l.Realm(), first)
	}
	if err != nil {
		return first, before, err
	}
	segments, err := l.list(ctx, false)
	if err != nil {
		return first, before, err
	}
	if next == 0 { // the stream has lost all its messages
		if next, err = l.after(ctx, segments, first); err != nil || next == 0 {
			return first, before, err
		}
	}
	begins, before, err = l.run(ctx, segments, next)
	if err == nil && begins == 0 && l.listedBefore(first) {
		if segments, err = l.list(ctx, true); err == nil {
			begins, before, err = l.run(ctx, segments, next)
		}
	}
	if err != nil || begins == 0 {
		return first, before, err
	}
	return min(first, begins), before, nil
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
// the commit next. It is zero if commits are missing between the run and next, or if there is no run. before
// are the segments before the run, which is behind a gap unless there are none.
func (l *Log) run(ctx context.Context, segments []archive.Item, next uint64) (begins uint64, before []archive.Item, err error) {
	count := 0
	for count < len(segments) && segments[count].First < next {
		count++
	}
	run := lastRun(segments[:count])
	if count > 0 && segments[count-1].Last+1 < next {
		run = count
	}
	if run < count {
		r, err := l.reader(ctx, segments[run])
		if err != nil {
			return 0, nil, err
		}
		begins = r.Info().First.Position
	}
	return begins, segments[:run], nil
}

// lastRun returns the index of the first of the segments behind the last gap between them; 0 without a gap.
func lastRun(segments []archive.Item) (index int) {
	for i := range segments {
		if i > 0 && segments[i].First > segments[i-1].Last+1 {
			index = i
		}
	}
	return index
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
