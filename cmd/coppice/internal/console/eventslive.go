package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
)

// The limits of the live view of events.
const (
	eventsEvery = 250 * time.Millisecond // at most
	// maxWaitingRows is the number of rows that wait for the next message; the log is not read further meanwhile.
	maxWaitingRows = 500
	// reportPositions is after how many positions of the log without a row the browser receives how far the log was read.
	reportPositions = 1_000
	// maxLiveKept is the number of events that a view keeps between two messages.
	maxLiveKept = 1_000
	// maxEventViews is the number of live views of events of a user: more than one session has tabs.
	maxEventViews = 64
)

// followEvents calls send with the rows of new commits, until ctx ends. The commits behind the position after are new; if
// it is 0, those behind the last one.
func (r *realm) followEvents(ctx context.Context, f *view.EventFilter, after uint64, send func(*view.Events)) error {
	if f == nil {
		f = &view.EventFilter{}
	}
	select {
	case r.user.following <- struct{}{}:
		defer func() { <-r.user.following }()
	default:
		return &client.Error{Reason: client.ErrTooManyRequests, Message: fmt.Sprintf("your user follows the events on %d pages already; close some, and load this one again", maxEventViews)}
	}
	h, err := r.log(ctx)
	if err != nil {
		return err
	}
	h.MaxKept = maxLiveKept
	switch {
	case after == 0:
		after = h.Last
	case after > h.Last:
		return r.again()
	}
	if h.Last > after && h.Last-after > searchedCommits {
		return &client.Error{Reason: client.ErrExpired, Message: fmt.Sprintf("%d commits are new, and the console sends at most %d at once; read the events again", h.Last-after, searchedCommits)}
	}
	before, err := h.TimeAt(ctx, after)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &liveEvents{r: r, h: h, causes: h.Apart(), filter: *f, last: after, sent: after, before: before, taken: make(chan struct{}, 1), came: make(chan struct{}, 1)}
	l.next = l.begin()
	failed := make(chan error, 1)
	go func() { failed <- l.read(ctx, after+1) }()
	err = l.send(ctx, failed, send)
	if cancel(); err == nil {
		err = <-failed
	}
	return err
}

// again is the error after which a page has to begin again, because another realm has the name.
func (r *realm) again() error {
	return &client.Error{Reason: client.ErrExpired, Message: "realm " + r.name + " was deleted and created again; load the page again"}
}

// liveEvents collects rows of new commits between two messages.
type liveEvents struct {
	r      *realm
	filter view.EventFilter
	causes *history.History // of send alone
	sent   uint64           // the position that the browser knows of, of send alone
	came   chan struct{}    // receives after something was added
	taken  chan struct{}    // receives after the rows were taken

	mu     sync.Mutex // for the rest
	h      *history.History
	next   *search
	last   uint64    // the position that was read
	before time.Time // of the commit there
}

// send sends what read has added, until ctx ends or something fails.
func (l *liveEvents) send(ctx context.Context, failed chan error, send func(*view.Events)) error {
	look := time.NewTicker(listAge)
	defer look.Stop()
	for {
		select {
		case <-l.came:
		case err := <-failed:
			failed <- err
			return nil
		case <-look.C:
			if err := l.r.current(ctx); err != nil {
				return err
			}
			continue
		}
		page, err := l.take(ctx)
		if err != nil {
			return err
		}
		if page != nil {
			send(page)
		}
		if !pause(ctx, eventsEvery, nil) {
			return nil
		}
	}
}

// read reads the log from a position on, until ctx ends.
func (l *liveEvents) read(ctx context.Context, from uint64) error {
	of := selecting(&l.filter)
	of.FromSequence, of.Follow, of.Skipped = from, true, true
	return history.ReadOn(ctx, l.h.Log, of, func(c client.LogCommit) error {
		l.mu.Lock()
		l.h.Forget() // rows have what they need of it
		e := l.h.Entry(c, l.before)
		l.before, l.last = e.Time, e.Position
		if l.r.replaced.Load() {
			l.mu.Unlock()
			return l.r.again()
		}
		l.next.add(e)
		full := l.next.grouper.Groups()+len(l.next.marked) >= maxWaitingRows
		l.mu.Unlock()
		return l.wait(ctx, full)
	}, func(g history.Gap) error {
		l.mu.Lock()
		l.next.lost(g)
		l.last = g.Next - 1
		l.mu.Unlock()
		return l.wait(ctx, false)
	})
}

// wait reports that something was added, and waits until it is taken if it is full.
func (l *liveEvents) wait(ctx context.Context, full bool) error {
	if full {
		select { // that of an earlier batch
		case <-l.taken:
		default:
		}
	}
	select {
	case l.came <- struct{}{}:
	default:
	}
	if !full {
		return nil
	}
	select {
	case <-l.taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take returns what was added, nil if there is nothing to send. The log is read further meanwhile.
func (l *liveEvents) take(ctx context.Context) (*view.Events, error) {
	l.mu.Lock()
	is, last := l.next, l.last
	l.next = l.begin()
	l.mu.Unlock()
	select {
	case l.taken <- struct{}{}:
	default:
	}
	defer l.causes.Forget()
	if err := is.finish(ctx); err != nil {
		return nil, err
	}
	if len(is.page.Rows)+len(is.page.Missing) == 0 && last-l.sent < reportPositions {
		return nil, nil //nolint:nilnil // nothing is new
	}
	l.sent, is.page.Last = last, last
	return is.page, nil
}

// begin begins the rows of the next message.
func (l *liveEvents) begin() *search {
	s := l.r.search(l.causes, l.filter)
	s.newest = l.before
	return s
}
