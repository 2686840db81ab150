package history

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Gap is a part of the log that cannot be read: neither the log nor the archive has its commits.
type Gap struct {
	From uint64 // the first position that was asked for and cannot be read
	Next uint64 // the position at which the log goes on
	Why  error
}

// ReadOn reads the log forward, as LogClient.Read does, and goes on after commits that are missing, for which it calls
// gap. An error of visit or gap ends it, and is returned.
func ReadOn(ctx context.Context, log client.LogClient, of client.LogOptions, visit func(client.LogCommit) error, gap func(Gap) error) error {
	for {
		var failed error
		for c, err := range log.Read(ctx, of) {
			if failed = err; err != nil {
				break
			}
			of.FromSequence, of.FromRevision = c.Sequence+1, 0
			if err := visit(c); err != nil {
				return err
			}
		}
		if failed == nil {
			return ctx.Err()
		}
		next := continues(failed)
		if next <= of.FromSequence {
			return failed
		}
		if err := gap(Gap{From: of.FromSequence, Next: next, Why: failed}); err != nil {
			return err
		}
		of.FromSequence, of.FromRevision = next, 0
		if of.ToSequence > 0 && next > of.ToSequence {
			return nil
		}
	}
}

// continues returns the position at which the log goes on after commits that are missing, zero if the error has none.
func continues(err error) (position uint64) {
	var refused *client.Error
	if !errors.Is(err, client.ErrExpired) || !errors.As(err, &refused) {
		return 0
	}
	for _, c := range refused.Causes {
		if c.Reason == client.CauseLogContinues {
			position, _ = strconv.ParseUint(c.Message, 10, 64) // zero if it is none
		}
	}
	return position
}

// errFound ends a read.
var errFound = errors.New("found")

// SeekTime returns a position from which all commits are read that are not earlier than a time, and no earlier ones: that
// of the first of them, or the one after the commit before it. If commits before the first one that is not earlier
// cannot be read, the position is theirs. It searches the log by halves, since the times of commits never decrease,
// and reads one commit in each step.
func (h *History) SeekTime(ctx context.Context, t time.Time) (position uint64, err error) {
	low, high := uint64(1), h.Last+1
	for low < high {
		mid := low + (high-low)/2
		at, when, err := h.commitFrom(ctx, mid)
		switch {
		case err != nil:
			return 0, err
		case at == 0 || !when.Before(t):
			high = mid
		default:
			low = at + 1
		}
	}
	return low, nil
}

// commitFrom returns the position and the time of the first commit that can be read from a position on, up to the last
// known one; zero if there is none.
func (h *History) commitFrom(ctx context.Context, from uint64) (at uint64, when time.Time, err error) {
	err = ReadOn(ctx, h.Log, client.LogOptions{FromSequence: from, ToSequence: h.Last, Limit: 1}, func(c client.LogCommit) error {
		at, when = c.Sequence, time.UnixMicro(c.GetTime())
		return errFound
	}, func(Gap) error { return nil })
	if errors.Is(err, errFound) {
		err = nil
	}
	return at, when, err
}

// maxOriginSteps is how far Origin follows causes, and maxOrigins how many origins Origins remembers, twice.
const (
	maxOriginSteps = 10_000
	maxOrigins     = 1 << 16
)

// Origins finds the commands of clients that caused events. It is not safe for concurrent use.
type Origins struct {
	Find Finder

	recent, older map[uint64]*client.LogEvent // by the revision of the event that was caused
}

// Of returns the event of the command that caused an event in the end: e itself if a client requested it. It is nil if no
// command did, as for an object whose owner never existed. The error is a MissingError if a cause cannot be read.
func (o *Origins) Of(ctx context.Context, e *client.LogEvent) (*client.LogEvent, error) {
	origin, err := o.find(ctx, e)
	if err == nil && e.Revision > 0 {
		if len(o.recent) >= maxOrigins {
			o.older, o.recent = o.recent, nil
		}
		if o.recent == nil {
			o.recent = map[uint64]*client.LogEvent{}
		}
		o.recent[e.Revision] = origin
	}
	return origin, err
}

func (o *Origins) find(ctx context.Context, e *client.LogEvent) (*client.LogEvent, error) {
	for range maxOriginSteps {
		if requested(e) || e.Reason == coppicev1.Reason_REASON_RESTORED {
			own := *e
			return &own, nil
		}
		if e.Cause == 0 || e.Cause >= e.Revision {
			return nil, nil //nolint:nilnil // no command caused it
		}
		if known, ok := o.recent[e.Cause]; ok {
			return known, nil
		}
		if known, ok := o.older[e.Cause]; ok {
			return known, nil
		}
		cause, err := o.Find(ctx, e.Cause)
		if err != nil || cause == nil {
			return nil, err
		}
		e = cause
	}
	return nil, &MissingError{Revision: e.Revision}
}
