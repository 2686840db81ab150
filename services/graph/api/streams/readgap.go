package streams

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Messages of the log may be missing, and those that are no commits are in no archive. So a reader compares
// each commit after missing messages with the commit before them.

// lookBack is the number of messages before the first one that begin looks at first.
const lookBack = 64

// maxLookBack is the maximum number of messages that it looks at before it looks whether one was a commit.
const maxLookBack = 1 << 16

// begin finds the last commit before the messages that are read: those that are older are skipped, and those
// that are missing after it are a gap.
func (r *logReading) begin(ctx context.Context) error {
	first := max(r.first, 1)
	defer func() { r.reached, r.missed = r.next-1, false }() // what precedes the range is not part of it
	if r.next > r.last+1 {
		return nil // nothing is known of what will precede it
	}
	until := r.next
	for back := uint64(lookBack); r.sequence == 0 && until > first; back = min(2*back, maxLookBack) {
		from := max(first, until-min(until, back))
		if err := r.lookAt(ctx, from, until); err != nil {
			return err
		}
		until = from
	}
	return nil
}

// lookAt looks at the messages from a position on that precede another one.
func (r *logReading) lookAt(ctx context.Context, from, until uint64) error {
	for from < until {
		before := from
		err := r.lookChunk(ctx, &from, until)
		if errors.Is(err, errEnough) || err == nil && from == before { // the others cannot be read
			return nil
		}
		if err == nil {
			err = r.beat()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookChunk is lookAt for some messages, and sets from to the position after them.
func (r *logReading) lookChunk(ctx context.Context, from *uint64, until uint64) error {
	leave, err := r.s.placeToRead(ctx, r.beat)
	if err != nil {
		return err
	}
	defer leave()
	_, err = r.s.c.Log.Read(ctx, *from, logChunk, maxStreamed, func(m eventlog.Message) error {
		if m.Position >= until {
			return errEnough
		}
		*from = m.Position + 1
		_, err := r.skips(ctx, m)
		return err
	})
	return err
}

// expired returns the error for a revision that precedes what can be read, or for r.next if it is zero. The error names
// what is missing, and what can be read. It is nil if the revision can be read.
func (r *logReading) expired(ctx context.Context, readable *eventlog.Readable, revision uint64) error {
	_, err := r.s.c.Log.Read(ctx, r.first, logChunk, maxStreamed, func(m eventlog.Message) error {
		h, foreign := r.s.c.Log.Keys().Check(m)
		if foreign == "" {
			var err error
			if foreign, err = r.s.c.Log.Skips(ctx, m, &h); err != nil {
				return err
			}
		}
		switch {
		case foreign != "":
			return nil
		case h.FirstRevision <= revision:
			return errEnough
		}
		from := uint64(1)
		if readable.OlderSequence > 0 {
			if from = readable.OlderRevision(ctx); from > 0 {
				from++
			}
		}
		return missing(readable.OlderSequence+1, from, m.Position, &h)
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil && revision == 0: // a long run of messages that are no commits
		return &lifecycle.Error{Reason: api.ErrExpired, Causes: continues(r.first), Message: fmt.Sprintf("sequence %d is neither in the log nor in the archive any more: they begin at sequence %d", r.next, r.first)}
	}
	return err
}

// gap returns the error for the commits that are missing between the last one and one at a position.
func (r *logReading) gap(ctx context.Context, position uint64, h *eventlog.Header) error {
	revision := uint64(1) // the first one that is missing
	if r.sequence > 0 {
		revision = 0
		_, err := r.s.c.Log.Read(ctx, r.position, 1, maxStreamed, func(m eventlog.Message) error {
			if m.Position != r.position { // it is gone since
				return errEnough
			}
			commit, err := m.Open(new([]byte))
			if err != nil {
				return err
			}
			last, err := commitcodec.ReadHeader(commit)
			if err != nil {
				return err
			}
			events, err := commitcodec.CountEvents(commit)
			revision = last.FirstRevision + events
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return missing(r.sequence+1, revision, position, h)
}

// missing returns the error for commits that cannot be read, from one with a sequence and a first revision, zero if that is
// not known, up to one at a position.
func missing(sequence, revision, position uint64, next *eventlog.Header) *lifecycle.Error {
	revisions := fmt.Sprintf("the revisions %d to %d", revision, next.FirstRevision-1)
	switch {
	case revision == 0:
		revisions = fmt.Sprintf("revisions before %d", next.FirstRevision)
	case next.FirstRevision <= revision:
		revisions = "no revisions"
	}
	return &lifecycle.Error{Reason: api.ErrExpired, Causes: continues(position), Message: fmt.Sprintf(
		"commits %d to %d with %s are neither in the log nor in the archive: what follows them begins at position %d of the stream, with revision %d",
		sequence, next.Sequence-1, revisions, position, next.FirstRevision)}
}

// continues returns the cause that says for programs where the log goes on after commits that are missing.
func continues(position uint64) []lifecycle.Cause {
	return []lifecycle.Cause{{Reason: api.CauseLogContinues, Field: "fromSequence", Message: strconv.FormatUint(position, 10)}}
}
