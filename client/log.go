package client

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// logClient is the LogClient of a Client.
type logClient struct{ c *Client }

// LogCommit is a commit and its place in the log.
type LogCommit struct {
	// Sequence is the position of the commit: the sequence of its message in the stream of the log. Each Sequence in
	// reads of the log is one. Commit.Sequence counts the commits of the realm.
	Sequence uint64
	// Commit is nil for a message that is no commit, see IncludeSkipped, and with Undecoded.
	*Commit
	// Skipped says why the message is no commit of the realm; empty for a commit.
	Skipped string
	// Stored is the message as it is in the stream; nil if Partial. It must not be modified.
	Stored []byte
	// Partial says that the users file does not let the actor read all of the commit: events and values are missing. See
	// WithOnLeftOut.
	Partial bool
}

func (l *logClient) Last(ctx context.Context, _ ...CommitOption) (last uint64, err error) {
	if past := l.c.past; past != nil {
		return past.Sequence, nil
	}
	r := &logReader{l: l}
	if err := r.reply(ctx, func(LogCommit, error) bool { return true }); err != nil {
		return 0, l.wrap(err)
	}
	return r.last, nil
}

func (l *logClient) Commit(ctx context.Context, sequence uint64, _ ...CommitOption) (*Commit, error) {
	for c, err := range l.Read(ctx, FromSequence(sequence), ToSequence(sequence)) {
		return c.Commit, err
	}
	if err := ctx.Err(); err != nil {
		return nil, l.wrap(err)
	}
	return nil, &Error{Reason: ErrNotFound, Message: fmt.Sprintf("log of realm %s: there is no commit with the sequence %d", l.c.realm, sequence)}
}

// Read skips messages of the stream that are no commits, as graph services do, unless
// IncludeSkipped asks for them.
func (l *logClient) Read(ctx context.Context, opts ...LogOption) iter.Seq2[LogCommit, error] {
	return func(yield func(LogCommit, error) bool) {
		of := collect(opts, LogOption.ApplyToLog)
		if past := l.c.past; past != nil { // nothing is appended to it
			if of.Follow = false; of.ToSequence == 0 || of.ToSequence > past.Sequence {
				of.ToSequence = past.Sequence
			}
			if of.FromSequence > of.ToSequence || of.FromSequence == 0 && of.FromRevision == 0 {
				return
			}
		}
		r := &logReader{l: l, of: of, next: of.FromSequence, to: of.ToSequence}
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

func (l *logClient) wrap(err error) error { return fmt.Errorf("log of realm %s: %w", l.c.realm, err) }

// logReader reads a range with several requests.
type logReader struct {
	l    *logClient
	of   LogOptions
	next uint64 // zero before the first reply
	to   uint64 // zero: not known, or no end
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

// reply reads the reply to one request.
func (r *logReader) reply(ctx context.Context, yield func(LogCommit, error) bool) error {
	return r.l.c.streamed(ctx, bus.RealmAPI(r.l.c.realm, r.l.c.actor, bus.VerbReadLog), r.request, func(data []byte) (done bool, err error) {
		var b coppicev1.LogBatch
		if err := proto.Unmarshal(data, &b); err != nil {
			return false, fmt.Errorf("not a LogBatch: %w", err)
		}
		if b.GetFormat() != logFormat {
			return false, fmt.Errorf("the graph service sends format %d of the log, and this program reads format %d; use the same version of both", b.GetFormat(), logFormat)
		}
		if r.next != 0 && b.GetFrom() != r.next {
			if b.GetError() != nil {
				return false, api.ErrorOf(b.GetError())
			}
			return false, errGapInLog
		}
		if r.last = b.GetLast(); !r.of.Follow && (r.to == 0 || b.GetError() == nil && r.to > r.last) {
			r.to = r.last // later commits are not read
		}
		r.l.c.lacks(bus.VerbReadLog, &b)
		if b.GetLeftOut() > 0 && (r.of.Complete || r.of.Undecoded) {
			return false, r.partial()
		}
		for _, e := range b.GetEntries() {
			r.next = e.GetSequence() + 1
			c, err := LogCommit{Sequence: e.GetSequence(), Skipped: e.GetUnreadable(), Stored: e.GetStored()}, error(nil)
			if e.GetPartial() {
				c.Stored, c.Partial = nil, true
			}
			switch {
			case c.Partial && (r.of.Undecoded || r.of.Complete):
				err = r.partial()
			case c.Skipped == "":
				r.read++
				if !r.of.Undecoded {
					c.Commit, err = r.commit(e)
				}
			case !r.of.Skipped:
				continue
			}
			if !yield(c, err) {
				r.done = true
				return true, nil
			}
		}
		r.next = max(r.next, b.GetNext())
		if b.GetError() != nil {
			return false, api.ErrorOf(b.GetError())
		}
		r.done = r.to != 0 && r.next > r.to || r.of.Limit > 0 && r.read >= r.of.Limit || r.to == 0 && !r.of.Follow
		return b.GetEnd() || r.done, nil
	}, r.of.OnError)
}

// partial is the error for a log of which the actor may read a part.
func (r *logReader) partial() error {
	return &Error{Reason: ErrForbidden, Message: fmt.Sprintf(
		"actor %s may read a part of the log only: read it as a user whose rules have get and past for all kinds and namespaces", r.l.c.actor)}
}

// errGapInLog is a lost batch: the client asks for the rest again.
var errGapInLog = &Error{Reason: ErrServiceUnavailable, Message: "a part of the reply was lost; send the request again", RetryAfter: firstPause}

// logFormat is the format of LogBatch that the client reads.
const logFormat = 1

func (r *logReader) commit(e *coppicev1.LogEntry) (*coppicev1.Commit, error) {
	if e.GetPartial() {
		return e.GetCommit(), nil
	}
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
