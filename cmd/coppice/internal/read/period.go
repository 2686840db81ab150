package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
)

// pastEvents writes events that have happened, with the warnings between them.
type pastEvents struct {
	*cli.Session
	h      *history.History
	w      *history.Writer
	about  client.LogOptions // selects commits
	match  func(*client.LogEvent) bool
	warned func(client.Warning) bool
	last   int  // how many of both
	all    bool // no matter how many
}

// tail writes the last events.
func (p *pastEvents) tail(ctx context.Context) error {
	commits := history.MaxCommits
	if p.about.Name != "" {
		commits = history.AllCommits
	}
	found, complete, err := p.h.Tail(ctx, p.last, commits, p.about, p.match)
	if err != nil {
		return err
	}
	if p.h.Pruned != nil {
		_, _ = fmt.Fprintf(p.Stderr, "earlier events cannot be read: %v\n", p.h.Pruned)
	} else if !complete && len(found) < p.last {
		_, _ = fmt.Fprintf(p.Stderr, "searched only the last %d commits\n", commits)
	}
	warnings, err := p.Warnings(ctx, "", p.warned)
	if err != nil {
		return err
	}
	return p.w.All(ctx, found, warnings, p.last)
}

// errLater ends a read at the first commit after a period.
var errLater = errors.New("the period has ended")

// period writes the events of a period, and on stderr what of it cannot be read. A zero end is the present.
func (p *pastEvents) period(ctx context.Context, since, until time.Time) error {
	warnings, err := p.Warnings(ctx, "", p.warned)
	if err != nil {
		return err
	}
	from, err := p.h.SeekTime(ctx, since)
	if err != nil {
		return err
	}
	var kept []client.LogEvent
	one := func(e *client.LogEvent) error {
		if !p.match(e) {
			return nil
		}
		if !p.all {
			if kept = append(kept, *e); len(kept) > 2*p.last+1000 {
				kept = append(kept[:0], kept[len(kept)-p.last:]...)
			}
			return nil
		}
		for len(warnings) > 0 && warnings[0].Time.Before(e.Time) {
			if err := p.w.Warning(warnings[0]); err != nil {
				return err
			}
			warnings = warnings[1:]
		}
		return p.w.Event(ctx, *e)
	}
	before := since // when the last commit was made
	to := p.h.Last
	if from <= to {
		p.about.FromSequence, p.about.ToSequence, p.about.Skipped = from, to, true
		err = history.ReadOn(ctx, p.h.Log, p.about, func(c client.LogCommit) error {
			if c.Commit == nil {
				e := p.h.Skip(c, before)
				return one(&e)
			}
			if before = time.UnixMicro(c.GetTime()).UTC(); !until.IsZero() && !before.Before(until) {
				return errLater
			}
			entries := p.h.Keep(c.Sequence, c.Commit).Entries()
			for i := range entries {
				if err := one(&entries[i]); err != nil {
					return err
				}
			}
			return nil
		}, func(g history.Gap) error {
			_, err := fmt.Fprintf(p.Stderr, "events cannot be read: %v\n", g.Why)
			return err
		})
	}
	if err != nil && !errors.Is(err, errLater) {
		return err
	}
	last := p.last
	if p.all {
		last = len(warnings)
	}
	return p.w.All(ctx, kept[max(0, len(kept)-last):], warnings, last)
}

// within reports whether a time is in a period. A zero begin or end is none.
func within(t, since, until time.Time) bool {
	return !t.Before(since) && (until.IsZero() || t.Before(until))
}
