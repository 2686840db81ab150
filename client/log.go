package client

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Log reads a realm's event log, by the verb readlog. It is safe for concurrent use.
type Log struct{ c *Client }

// Log returns the realm's event log. The actor needs the verb readlog.
func (c *Client) Log() *Log { return &Log{c: c} }

// LogRange says what Read reads.
type LogRange struct {
	// From is the first sequence; zero: see FromRevision.
	From uint64
	// FromRevision begins with the commit that has a revision. If both are zero
	// reading begins after the last commit.
	FromRevision uint64
	// To is the last sequence; zero: the last there is.
	To uint64
	// Follow waits for more after the last commit, until the context ends.
	Follow bool
	// Limit is how many commits are read at most; zero: no limit.
	Limit int
	// UIDs, Name and Namespace leave out commits that do not mention any of the
	// uids, the name and the namespace; each may be empty. A commit that is
	// read may still have no event about such an object.
	UIDs            []string
	Name, Namespace string
	// Skipped has Read yield also the messages that are no commits of the realm,
	// which graph services skip. No filter leaves them out, and Limit does not
	// count them.
	Skipped bool
}

// LogCommit is a commit and its sequence in the log.
type LogCommit struct {
	Sequence uint64
	// Commit is nil for a message that is no commit; see LogRange.Skipped.
	*coppicev1.Commit
	// Skipped says why the message is no commit; empty if it is one.
	Skipped string
}

// Last is the sequence of the last commit, zero in an empty log.
func (l *Log) Last(ctx context.Context) (last uint64, err error) {
	r := &logReader{l: l}
	if err := r.reply(ctx, func(LogCommit, error) bool { return true }); err != nil {
		return 0, l.wrap(err)
	}
	return r.last, nil
}

// Commit reads one commit.
func (l *Log) Commit(ctx context.Context, sequence uint64) (*coppicev1.Commit, error) {
	for c, err := range l.Read(ctx, LogRange{From: sequence, To: sequence}) {
		return c.Commit, err
	}
	return nil, &Error{Reason: NotFound, Message: fmt.Sprintf("the log of realm %s has no sequence %d", l.c.realm, sequence)}
}

// Follow iterates over commits from a sequence on, and waits for more until ctx
// ends.
func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[*coppicev1.Commit, error] {
	return func(yield func(*coppicev1.Commit, error) bool) {
		for c, err := range l.Read(ctx, LogRange{From: max(from, 1), Follow: true}) {
			if !yield(c.Commit, err) {
				return
			}
		}
	}
}

// Read iterates over commits in order. It goes on by itself, without a gap, after
// a lost connection or a change of servers. At most 8 MiB of commits are on their
// way at a time.
//
// Messages that are no commits are left out, as graph services skip them, unless
// LogRange.Skipped asks for them.
//
// It ends with the range, with ctx, or with an error: Expired says that the log
// does not go back so far.
func (l *Log) Read(ctx context.Context, of LogRange) iter.Seq2[LogCommit, error] {
	return func(yield func(LogCommit, error) bool) {
		r := &logReader{l: l, of: of, next: of.From, to: of.To}
		for !r.done && ctx.Err() == nil {
			if err := r.reply(ctx, yield); err != nil {
				if ctx.Err() == nil {
					yield(LogCommit{}, l.wrap(err))
				}
				return
			}
		}
	}
}

func (l *Log) wrap(err error) error { return fmt.Errorf("log of realm %s: %w", l.c.realm, err) }

// logReader reads a range by as many requests as it takes.
type logReader struct {
	l    *Log
	of   LogRange
	next uint64 // zero before the first reply
	to   uint64 // zero: not known, or without end
	last uint64
	read int
	done bool
}

func (r *logReader) request() proto.Message {
	q := &coppicev1.ReadLogRequest{
		FromSequence: r.next, ToSequence: r.to, Follow: r.of.Follow, Uids: r.of.UIDs, Name: r.of.Name, Namespace: r.of.Namespace,
	}
	if r.next == 0 {
		q.FromRevision = r.of.FromRevision
	}
	if r.of.Limit > 0 {
		q.Limit = uint32(r.of.Limit - r.read)
	}
	return q
}

// reply reads what one request is answered with.
func (r *logReader) reply(ctx context.Context, yield func(LogCommit, error) bool) error {
	return r.l.c.streamed(ctx, bus.RealmAPI(r.l.c.realm, r.l.c.actor, bus.VerbReadLog), r.request, func(data []byte) (enough bool, err error) {
		var b coppicev1.LogBatch
		if err := proto.Unmarshal(data, &b); err != nil {
			return false, fmt.Errorf("not a LogBatch: %w", err)
		}
		if b.GetFormat() != logFormat {
			return false, fmt.Errorf("the graph service sends format %d of the log, and this program reads format %d; use programs of the same version", b.GetFormat(), logFormat)
		}
		if r.next != 0 && b.GetFrom() != r.next {
			if b.GetError() != nil {
				return false, lifecycle.ErrorOf(b.GetError())
			}
			return false, errGapInLog
		}
		if r.last = b.GetLast(); r.to == 0 && !r.of.Follow {
			r.to = r.last // what is appended from now on is not read
		}
		for _, e := range b.GetEntries() {
			r.next = e.GetSequence() + 1
			c, err := LogCommit{Sequence: e.GetSequence(), Skipped: e.GetUnreadable()}, error(nil)
			if c.Skipped == "" {
				r.read++
				c.Commit, err = r.commit(e)
			} else if !r.of.Skipped {
				continue
			}
			if !yield(c, err) {
				r.done = true
				return true, nil
			}
		}
		r.next = max(r.next, b.GetNext())
		if b.GetError() != nil {
			return false, lifecycle.ErrorOf(b.GetError())
		}
		r.done = r.to != 0 && r.next > r.to || r.of.Limit > 0 && r.read >= r.of.Limit || r.to == 0 && !r.of.Follow
		return b.GetEnd() || r.done, nil
	})
}

// errGapInLog is a lost batch: the rest is asked for again.
var errGapInLog = &Error{Reason: NotReady, Message: "a part of the reply was lost; ask again", RetryAfter: firstPause}

// logFormat is the format of LogBatch that is read.
const logFormat = 1

func (r *logReader) commit(e *coppicev1.LogEntry) (*coppicev1.Commit, error) {
	c, err := decodeCommit(e.GetStored())
	if err != nil {
		return nil, r.l.wrap(fmt.Errorf("sequence %d: %w", e.GetSequence(), err))
	}
	return c, nil
}

func decodeCommit(message []byte) (*coppicev1.Commit, error) {
	commit, err := envelope.Open(message)
	if err != nil {
		return nil, err
	}
	var c coppicev1.Commit
	return &c, proto.Unmarshal(commit, &c)
}
