package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// restored returns what the next commit records of a log that was restored from a backup, which may lack commits that no
// graph service here has seen. It returns nil unless Config.Restored names the realm, and if that is recorded already.
func (r *following) restored(ctx context.Context) (*writer.Loss, error) {
	restored := r.c.Restored[r.name]
	if restored == 0 {
		return nil, nil
	}
	recorded, err := r.recordsLoss(ctx, restored+1)
	if err != nil || recorded {
		return nil, err
	}
	r.log.Warn("the log was restored from a backup; its revisions continue higher", "sequence", restored)
	last := r.state.Checkpoint()
	return &writer.Loss{
		Note:     fmt.Sprintf("the log was restored from a backup that ends at sequence %d", restored),
		Revision: last.GetRevision() + writer.RestoredAhead(lifecycle.Time(last.GetTime()), lifecycle.TimeOf(r.time.Now())),
	}, nil
}

// recordsLoss reports whether a commit from a position of the log on records a loss. What was cut from there has
// recorded it, since commits are cut long after they were appended.
func (r *withLog) recordsLoss(ctx context.Context, from uint64) (records bool, err error) {
	var last, first uint64
	if err := r.await(ctx, func(ctx context.Context) (err error) {
		last, first, err = r.events.Last(ctx)
		return err
	}); err != nil {
		return false, err
	}
	switch {
	case from > last+1:
		return false, fmt.Errorf("realm %s: --restored %s@%d: the log ends at sequence %d; name the last sequence that the stream %s had when it was restored",
			r.name, r.name, from-1, last, bus.LogStream(r.name))
	case from < first:
		r.log.Info("the messages behind a restored backup are cut from the log, so that their loss counts as recorded", "sequence", from-1)
		return true, nil
	}
	for at := from; at <= last && !records; at++ {
		if err := r.await(ctx, func(ctx context.Context) error {
			records, err = r.recordsLossAt(ctx, at)
			return err
		}); err != nil {
			return false, err
		}
	}
	return records, nil
}

// recordsLossAt reports whether the commit at a position records a loss.
func (r *withLog) recordsLossAt(ctx context.Context, at uint64) (bool, error) {
	message, err := r.events.Get(ctx, at)
	if errors.Is(err, eventlog.ErrNotFound) || errors.Is(err, eventlog.ErrForeign) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	c, err := eventlog.Decode(message)
	if err != nil {
		return false, nil //nolint:nilerr // it is no commit
	}
	for i := range c.Commands {
		if verb, err := c.Verb(i); err != nil || verb == bus.VerbAcceptLoss {
			return true, err
		}
	}
	return false, nil
}
