package console

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
)

// eventsOfCascade is the number of events in a reply.
const eventsOfCascade = 100

// cascadePage replies with the events of a row, the oldest first. The parameters limit and search lower the numbers of
// events and of positions of the log after which the reply ends.
func (r *realm) cascadePage(ctx context.Context, q *http.Request) (any, error) {
	c := cascade{page: &view.Cascade{Events: []view.LogEvent{}, Missing: []view.Missing{}}, requests: searchRequests}
	var err error
	if c.filter, err = eventFilter(q); err != nil {
		return nil, err
	}
	if c.root, err = position(q, "root", "a revision"); err != nil {
		return nil, err
	}
	if c.root == 0 {
		return nil, badRequest("cascade is what followed from an event: name its revision with root=")
	}
	from, err := position(q, "from", "a position of the log")
	if err != nil {
		return nil, err
	}
	skip, err := position(q, "skip", "a number of events")
	if err != nil {
		return nil, err
	}
	limit, err := atMost(q, "limit", "a number of events", eventsOfCascade)
	if err != nil {
		return nil, err
	}
	most, err := atMost(q, "search", "a number of positions of the log", searchedCommits)
	if err != nil {
		return nil, err
	}
	if c.h, err = r.log(ctx); err != nil {
		return nil, err
	}
	low, high, err := r.bounds(ctx, c.h, &c.filter)
	if err != nil {
		return nil, err
	}
	at, err := c.h.PositionOf(ctx, c.root)
	var missing *history.MissingError
	switch {
	case from > 0 && errors.As(err, &missing) && !missing.Later: // what followed from it may be there
	case err != nil:
		return nil, r.notFound(err)
	case from == 0:
		from = max(at, low)
	}
	if c.filter.Cause > 0 { // this part of the cascade
		c.root = c.filter.Cause
	}
	c.roots, c.match, c.limit, c.skip = r.roots.of(c.filter.Cause), matching(&c.filter), int(limit), int(skip)
	if c.filter.Actor != "" {
		if known, err := c.findActor(ctx, r.roots.of(0), from); !known || err != nil {
			return c.page, err
		}
	}
	return c.page, c.read(ctx, from, min(high, from+most-1), high)
}

// cascade reads the events of a row.
type cascade struct {
	h       *history.History
	filter  view.EventFilter
	match   func(*client.LogEvent) bool
	byActor bool // the command is of the actor that the filter has
	roots   *history.Roots
	root    uint64

	limit, skip, requests int
	deadline              time.Time
	at                    uint64 // the position that is being read
	page                  *view.Cascade
	seen                  map[uint64]*client.LogEvent
}

// maxSeen is the number of events that are kept as possible causes of later ones.
const maxSeen = maxSearchKept

// errFull ends a reply: it goes on with the position at.
var errFull = errors.New("the reply is full")

// findActor finds whether the command of the row is of the actor of the filter. If known is false, the command is too far
// back for one reply, and the next request knows more.
func (c *cascade) findActor(ctx context.Context, roots *history.Roots, from uint64) (known bool, err error) {
	_, command, err := roots.Find(ctx, c.h, c.root, &c.requests)
	switch {
	case err != nil:
		return false, err
	case command == nil:
		c.page.From, c.page.Skip = from, c.skip
		return false, nil
	case command.Unreadable:
		c.page.Missing = append(c.page.Missing, unsure)
	}
	c.byActor = command.First.Actor == c.filter.Actor
	return true, nil
}

// read reads the log from a position up to another one.
func (c *cascade) read(ctx context.Context, from, to, last uint64) error {
	c.seen, c.at, c.deadline = map[uint64]*client.LogEvent{}, from, time.Now().Add(searchTime)
	if from > last {
		return nil
	}
	err := history.ReadOn(ctx, c.h.Log, client.LogOptions{FromSequence: from, ToSequence: to}, func(is client.LogCommit) error {
		c.at = is.Sequence
		if time.Now().After(c.deadline) {
			return errFull
		}
		e := c.h.Entry(is, time.Time{})
		c.page.Searched = &e.Time
		if err := c.add(ctx, e.Page.Events); err != nil {
			return err
		}
		c.at, c.skip = is.Sequence+1, 0
		return nil
	}, func(g history.Gap) error {
		c.page.Missing = append(c.page.Missing, view.Missing{Part: "events", Why: g.Why.Error()})
		c.at, c.skip = g.Next, 0
		return nil
	})
	switch {
	case errors.Is(err, errFull):
		c.page.From, c.page.Skip = c.at, c.skip
		return nil
	case err == nil && to < last:
		c.page.From = to + 1
	}
	return err
}

// add adds the events of a commit that belong to the row.
func (c *cascade) add(ctx context.Context, events []client.LogEvent) error {
	c.roots.Learn(events)
	if len(c.seen)+len(events) > maxSeen {
		c.seen = map[uint64]*client.LogEvent{}
	}
	for i := range events {
		c.seen[events[i].Revision] = &events[i]
	}
	n := 0 // events of the row in this commit
	for i := range events {
		e := &events[i]
		if !c.match(e) || c.filter.Actor != "" && !c.byActor && e.Actor != c.filter.Actor {
			continue
		}
		belongs, err := c.belongs(ctx, e.Revision)
		if err != nil {
			c.skip = max(c.skip, n)
			return err
		}
		if !belongs {
			continue
		}
		if n++; n <= c.skip {
			continue
		}
		if len(c.page.Events) >= c.limit {
			c.skip = n - 1
			return errFull
		}
		is, err := eventOf(ctx, c.find, *e)
		if err != nil {
			return err
		}
		c.page.Events = append(c.page.Events, is)
	}
	return nil
}

// belongs reports whether an event belongs to the row.
func (c *cascade) belongs(ctx context.Context, revision uint64) (bool, error) {
	root, command := c.roots.Of(revision)
	if root <= c.root || command != nil {
		return root == c.root, nil
	}
	if c.requests <= 0 {
		return false, errFull // the next request knows more
	}
	root, command, err := c.roots.Find(ctx, c.h, root, &c.requests)
	if err == nil && root > c.root && command == nil {
		err = errFull
	}
	return root == c.root, err
}

// find is a history.Finder that knows the events which were read.
func (c *cascade) find(ctx context.Context, revision uint64) (*client.LogEvent, error) {
	if e := c.seen[revision]; e != nil {
		return e, nil
	}
	e, err := c.h.Find(ctx, revision)
	if e != nil && len(c.seen) < maxSeen {
		c.seen[revision] = e
	}
	return e, err
}
