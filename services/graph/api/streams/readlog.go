package streams

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// LogReader reads the log without consumers: a wholelog.Lineage or a recording.Log. See wholelog.Log
// for Seek and Read.
type LogReader interface {
	// Readable returns what can be read now.
	Readable(ctx context.Context) (eventlog.Readable, error)
	// Keys returns the keys that authenticate commits of the realm.
	Keys() *eventlog.Keys
	// Skips returns why replicas skip a commit of the realm, "" if they do not.
	Skips(ctx context.Context, m eventlog.Message, h *eventlog.Header) (why string, err error)
	Seek(ctx context.Context, revision uint64) (position uint64, err error)
	Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) (pending uint64, err error)
}

// Limits of a reply with commits.
const (
	maxLogReply = 8 << 20 // bytes, after which the client asks again
	maxLogUIDs  = 1000
	logChunk    = 256
	logFormat   = 1
	// jsonGrowth is the approximate ratio of a commit's size as JSON to its size as
	// protobuf.
	jsonGrowth = 2
)

// ReadLog replies with commits of the log. A reply ends after about maxLogReply bytes, and the
// client asks for the rest, so that a slow client costs bounded memory here and in the NATS
// server.
func (s *Server) ReadLog(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	r := &logReading{s: s, now: q.RulesNow}
	if err := q.Read(&r.ReadLogRequest); err != nil {
		return err
	}
	if err := r.prepare(); err != nil {
		return err
	}
	leave, err := s.logReaders.enter(at.Actor)
	if err != nil {
		return err
	}
	s.stream(q, leave, r.serve, func(why *coppicev1.Status) proto.Message {
		return &coppicev1.LogBatch{Format: logFormat, From: r.from, Next: r.next, First: r.first, Last: r.last, End: true, Error: why}
	})
	return nil
}

// logReading is one reply to readlog.
type logReading struct {
	coppicev1.ReadLogRequest
	s   *Server
	out *sender
	// rules restrict what the reply has; nil for no restriction. now returns those that count now, which each chunk has.
	rules *access.Rules
	now   func() *access.Rules

	mention [][]byte // a commit has to mention one of these,
	also    [][]byte // and all of these

	next, first, last uint64
	sequence          uint64 // of the last commit that was not skipped, zero if it is not known
	position          uint64 // of this commit
	reached           uint64 // the position of the last message that skips has seen
	missed            bool   // messages are missing after position
	from              uint64 // where the batch that is sent next begins
	bytes             uint64 // of entries, as they are sent
	count             uint32
	entries           []*coppicev1.LogEntry
	size              int    // of entries, in bytes
	leftOut           uint64 // events since the last batch that rules leave out
}

func (r *logReading) prepare() *lifecycle.Error {
	if n := len(r.GetUids()); n > maxLogUIDs {
		return lifecycle.ErrBadRequest("uids: %d of them; a request has at most %d", n, maxLogUIDs)
	}
	for i, text := range r.GetUids() {
		u, err := uid.Parse(text)
		if err != nil {
			return lifecycle.ErrBadRequest("uids[%d]: %v", i, err)
		}
		r.mention = append(r.mention, []byte(u))
	}
	for _, text := range []string{r.GetName(), r.GetNamespace()} {
		if text != "" {
			r.also = append(r.also, []byte(text))
		}
	}
	if r.MaxBytes == 0 || r.MaxBytes > maxLogReply {
		r.MaxBytes = maxLogReply
	}
	return nil
}

// errEnough ends a read that has reached a limit of the request.
var errEnough = errors.New("enough")

func (r *logReading) serve(ctx context.Context, out *sender) (err error) {
	r.out = out
	if r.GetFromSequence() == 0 && r.GetFromRevision() != 0 { // before it is known what can be read, which the search may change
		if r.next, err = r.s.c.Log.Seek(ctx, r.GetFromRevision()); err != nil {
			return err
		}
	}
	readable, err := r.s.c.Log.Readable(ctx)
	if err != nil {
		return err
	}
	r.last, r.first = readable.Last, readable.First
	switch {
	case r.GetFromSequence() != 0:
		r.next = r.GetFromSequence()
	case r.GetFromRevision() == 0:
		r.next = r.last + 1
	}
	r.from = r.next
	if r.next < r.first {
		if err := readable.Unavailable; err != nil {
			return &lifecycle.Error{
				Reason: api.ErrServiceUnavailable, RetryAfter: time.Second,
				Message: fmt.Sprintf("sequence %d is in the archive, which cannot be read now: %v", r.next, err),
			}
		}
		err := r.expired(ctx, &readable, 0)
		if errors.Is(err, eventlog.ErrCut) {
			err = r.cut(ctx, err)
		}
		return err
	}
	if r.GetFromSequence() == 0 && r.GetFromRevision() != 0 && r.next <= r.first && readable.Unavailable == nil {
		err := r.expired(ctx, &readable, r.GetFromRevision())
		if errors.Is(err, eventlog.ErrCut) {
			err = r.cut(ctx, err)
		}
		if err != nil {
			return err
		}
	}
	if !r.GetFollow() && (r.ToSequence == 0 || r.ToSequence > r.last) {
		r.ToSequence = r.last
	}
	if err := r.flush(false); err != nil { // the client learns that it is served
		return err
	}
	for err = r.begin(ctx); errors.Is(err, eventlog.ErrCut); err = r.begin(ctx) {
		if err := r.cut(ctx, err); err != nil { // what precedes the range cannot be read, up to the new first position
			return err
		}
	}
	if err != nil {
		return err
	}
	until := r.s.until(readerTime)
	for {
		if r.ToSequence != 0 && r.next > r.ToSequence || time.Now().After(until) {
			return r.end()
		}
		// This must precede the read: commits that are appended after it end the wait
		// below.
		at := r.s.State.Checkpoint()
		more, err := r.chunk(ctx)
		switch {
		case errors.Is(err, errEnough):
			return r.end()
		case errors.Is(err, eventlog.ErrCut):
			return cmp.Or(r.cut(ctx, err), err)
		case err != nil:
			return err
		case more:
		case r.next <= max(r.last, at.GetPosition()):
			// The server that replied lags behind the others.
			if err := r.pause(ctx, 20*time.Millisecond, func(ctx context.Context) { <-ctx.Done() }); err != nil {
				return err
			}
		case !r.GetFollow():
			return r.end()
		default:
			if err := r.pause(ctx, r.s.c.Heartbeat, func(ctx context.Context) { _ = r.s.Reached(ctx, at.GetRevision()+1) }); err != nil {
				return err
			}
		}
	}
}

// cut finds out again what can be read, after a read has failed because commits were pruned meanwhile, or were found in a
// damaged segment. The error says that this has those from r.next on; it is failed if nothing has changed.
func (r *logReading) cut(ctx context.Context, failed error) error {
	for {
		readable, err := r.s.c.Log.Readable(ctx)
		if err = cmp.Or(err, readable.Unavailable); err != nil {
			return err
		}
		if readable.First <= r.first {
			return failed
		}
		r.first, r.sequence, r.position = readable.First, 0, 0
		if r.next >= r.first {
			return nil
		}
		if failed = r.expired(ctx, &readable, 0); !errors.Is(failed, eventlog.ErrCut) {
			return failed
		}
	}
}

// pause waits for at most the duration most, and sends a heartbeat if one is due.
func (r *logReading) pause(ctx context.Context, most time.Duration, wait func(context.Context)) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	wait(limited)
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.beat()
}

// beat sends a batch without entries if none was sent for a while.
func (r *logReading) beat() error {
	if time.Since(r.out.sent) < r.s.c.Heartbeat {
		return nil
	}
	return r.flush(false)
}

// placeToRead waits for a place to read and send a chunk of the log or of warnings,
// and calls beat meanwhile.
func (s *Server) placeToRead(ctx context.Context, beat func() error) (leave func(), err error) {
	leave = func() { s.logChunks.Release("") }
	if s.logChunks.Try("") == nil {
		return leave, nil
	}
	acquiring, cancel := context.WithCancel(ctx)
	defer cancel()
	acquired := make(chan error, 1)
	go func() { acquired <- s.logChunks.Acquire(acquiring, "") }()
	tick := time.NewTicker(s.c.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case err := <-acquired:
			return leave, err
		case <-tick.C:
			if err := beat(); err != nil {
				cancel()
				if <-acquired == nil {
					leave()
				}
				return nil, err
			}
		}
	}
}

// chunk reads and sends some commits, and reports whether more follow them.
func (r *logReading) chunk(ctx context.Context) (more bool, err error) {
	leave, err := r.s.placeToRead(ctx, r.beat)
	if err != nil {
		return false, err
	}
	defer leave()
	r.rules = r.now()
	pending, err := r.s.c.Log.Read(ctx, r.next, logChunk, maxStreamed, func(m eventlog.Message) error { return r.visit(ctx, m) })
	if len(r.entries) > 0 { // also after an error: next is after them
		if err := r.flush(false); err != nil {
			return false, err
		}
	}
	if err == nil {
		err = r.beat()
	}
	return pending > 0, err
}

func (r *logReading) visit(ctx context.Context, m eventlog.Message) error {
	if r.ToSequence != 0 && m.Position > r.ToSequence {
		if r.next <= r.ToSequence { // the log may have lost the rest of the range
			if _, err := r.skips(ctx, m); err != nil {
				return err
			}
		}
		r.next = r.ToSequence + 1 // the client has all of its range, also if that ends between two messages
		return errEnough
	}
	entry, err := r.entry(ctx, m)
	if err != nil {
		return err
	}
	r.next = m.Position + 1
	r.last = max(r.last, m.Position)
	if entry == nil {
		return nil
	}
	size, sent := len(m.Data), len(m.Data)
	if entry.GetPartial() {
		size = proto.Size(entry)
		sent = size
	}
	if r.out.q.JSON { // as text, and not compressed
		size = proto.Size(entry)
		sent = jsonGrowth * size
	}
	if r.size+size > r.out.room() && len(r.entries) > 0 {
		if err := r.flush(false); err != nil {
			return err
		}
	}
	r.entries, r.size = append(r.entries, entry), r.size+size
	r.bytes += uint64(sent)
	if entry.GetUnreadable() == "" {
		r.count++
	}
	if r.bytes >= r.MaxBytes || r.GetLimit() > 0 && r.count >= r.GetLimit() {
		return errEnough
	}
	return nil
}

// entry returns the entry to send for a message, nil to leave it out. A message that is no
// commit of the realm, or that graph services skip for another reason, is never left out.
func (r *logReading) entry(ctx context.Context, m eventlog.Message) (e *coppicev1.LogEntry, err error) {
	e = &coppicev1.LogEntry{Sequence: m.Position, Stored: m.Data}
	if e.Unreadable, err = r.skips(ctx, m); e.GetUnreadable() != "" || err != nil {
		if r.rules != nil { // it may be a copy of a commit
			e.Stored, e.Partial = nil, true
		}
		return e, err
	}
	commit, err := m.Open(new([]byte))
	if err != nil {
		e.Unreadable = err.Error()
		if r.rules != nil {
			e.Stored, e.Partial = nil, true
		}
		return e, nil
	}
	if r.rules != nil && !readsAll(r.rules) {
		return r.partial(e, commit), nil // before the filter, which would say what the rest of the commit contains
	}
	if !r.matches(commit) {
		return nil, nil
	}
	if r.out.q.JSON {
		e.Stored, e.Commit = nil, &coppicev1.Commit{}
		if err := proto.Unmarshal(commit, e.Commit); err != nil {
			e.Commit, e.Unreadable = nil, err.Error()
		}
	}
	return e, nil
}

// skips returns why graph services skip a message, "" if they do not. The error is that of gap if commits are
// missing before it.
func (r *logReading) skips(ctx context.Context, m eventlog.Message) (why string, err error) {
	r.missed, r.reached = r.missed || m.Position > r.reached+1, m.Position
	h, foreign := r.s.c.Log.Keys().Check(m)
	if foreign != "" {
		return foreign, nil
	}
	if why, err = r.s.c.Log.Skips(ctx, m, &h); why != "" || err != nil {
		return why, err
	}
	if h.Sequence <= r.sequence {
		return fmt.Sprintf("it is commit %d of the realm, of which commit %d is there already", h.Sequence, r.sequence), nil
	}
	if r.missed && m.Position >= r.next && h.Sequence > r.sequence+1 && (r.sequence > 0 || r.first <= 1) {
		return "", r.gap(ctx, m.Position, &h)
	}
	r.sequence, r.position, r.missed = h.Sequence, m.Position, false
	return "", nil
}

// matches reports whether a commit mentions what the request selects. Commits have uids and
// names unencoded.
func (r *logReading) matches(commit []byte) bool {
	for _, what := range r.also {
		if !bytes.Contains(commit, what) {
			return false
		}
	}
	for _, what := range r.mention {
		if bytes.Contains(commit, what) {
			return true
		}
	}
	return len(r.mention) == 0
}

func (r *logReading) flush(end bool) error {
	b := &coppicev1.LogBatch{
		Format: logFormat, From: r.from, Entries: r.entries, Next: r.next, First: r.first, Last: max(r.last, r.s.State.Checkpoint().GetPosition()), End: end, LeftOut: r.leftOut,
	}
	if len(r.entries) > 0 && !end {
		b.Next = r.entries[len(r.entries)-1].GetSequence() + 1
	}
	r.entries, r.size = nil, 0
	err := r.out.send(b)
	switch {
	case err == nil:
		r.from, r.leftOut = b.GetNext(), 0
	case len(b.GetEntries()) > 0:
		r.next = b.GetEntries()[0].GetSequence() // none of them was sent
	}
	return err
}

func (r *logReading) end() error { return r.flush(true) }

var _ LogReader = (*wholelog.Log)(nil)
