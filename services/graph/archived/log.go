package archived

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

	mu       sync.Mutex
	realm    [16]byte // zero until it is known
	segments []archive.Item
	listed   time.Time // when segments were listed; zero if they were not
	failure  error     // of the last list
	open     []opened  // newest last
	first    struct {
		position, sequence uint64 // of the first message of the stream, and of its first commit
	}
}

// opened is a segment that is open.
type opened struct {
	name archive.Name
	*segment.Reader
}

const (
	// listAgain is the time after which the segments are listed again.
	listAgain = 5 * time.Second
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
	last, first, err = l.Log.Last(ctx)
	if err != nil || first <= 1 || l.store == nil {
		return last, first, err
	}
	archived, err := l.begins(ctx, first)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure = err; err == nil {
		first = archived
	}
	return last, first, ctx.Err()
}

// Unavailable returns why the archive could not be listed by the last call of Last, nil if it
// could.
func (l *Log) Unavailable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// begins returns the first position that can be read of a log whose stream begins at first: that
// of the first segment of those that end with the commit before the stream's first.
func (l *Log) begins(ctx context.Context, first uint64) (uint64, error) {
	segments, err := l.list(ctx, false)
	if err != nil || len(segments) == 0 {
		return first, err
	}
	next, err := l.firstSequence(ctx, first)
	if err != nil || next == 0 {
		return first, err
	}
	run, end := 0, uint64(0) // without a gap
	for i, s := range segments {
		if s.First >= next {
			break
		}
		if s.First > end+1 {
			run = i
		}
		end = s.Last
	}
	if end+1 < next {
		return first, nil
	}
	r, err := l.reader(segments[run])
	if err != nil {
		return first, err
	}
	return min(first, r.Info().First.Position), nil
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
	l.first.position, l.first.sequence = first, h.Sequence
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
	segments, listed := l.segments, l.listed
	l.mu.Unlock()
	if !again && !listed.IsZero() && time.Since(listed) < listAgain {
		return segments, nil
	}
	all, err := archive.Segments(ctx, l.store, realm)
	if err != nil {
		return nil, err
	}
	segments = withoutOverlap(all)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments, l.listed = segments, time.Now()
	return segments, nil
}

// withoutOverlap leaves out segments whose commits others have. First and Last of the result
// increase.
func withoutOverlap(all []archive.Item) (segments []archive.Item) {
	for len(all) > 0 {
		chain := archive.Chain(all, all[0].First)
		segments = append(segments, chain...)
		end := chain[len(chain)-1].Last
		for len(all) > 0 && all[0].First <= end {
			all = all[1:]
		}
	}
	return segments
}

// reader opens a segment, or returns it if it is open.
func (l *Log) reader(item archive.Item) (*segment.Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.open, func(o opened) bool { return o.name == item.Name })
	if i >= 0 {
		o := l.open[i]
		l.open = append(slices.Delete(l.open, i, i+1), o)
		return o.Reader, nil
	}
	r, err := archive.OpenSegment(l.ctx, l.store, item.Entry)
	if err != nil {
		return nil, fmt.Errorf("archive %s: segment %s: %w", l.store, item.Entry.Name, err)
	}
	if len(l.open) >= maxOpen {
		l.open = slices.Delete(l.open, 0, 1)
	}
	l.open = append(l.open, opened{item.Name, r})
	return r, nil
}

// Get reads the commit at a position: from the archive if the stream begins later. If the archive
// does not have it either, or cannot be read, the error wraps eventlog.ErrCut.
func (l *Log) Get(ctx context.Context, position uint64) ([]byte, error) {
	commit, err := l.Log.Get(ctx, position)
	if !errors.Is(err, eventlog.ErrNotFound) {
		return commit, err
	}
	_, first, failed := l.Log.Last(ctx)
	if failed != nil || position >= first {
		return nil, errors.Join(err, failed)
	}
	err = fmt.Errorf("%w: %w", eventlog.ErrCut, err)
	if l.store == nil {
		return nil, err
	}
	found := false
	failed = l.visit(ctx, position, func(c segment.Commit) error {
		if found = c.Position == position; found {
			commit, failed = envelope.Open(c.Message)
		}
		return errors.Join(errFound, failed)
	})
	switch {
	case !errors.Is(failed, errFound):
		return nil, errors.Join(err, failed)
	case !found:
		return nil, err
	}
	return commit, nil
}
