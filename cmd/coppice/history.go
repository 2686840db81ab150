package main

import (
	"context"
	"slices"
	"sort"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// history reads the event log backwards: the last events, and by its revision
// any event that caused one of them.
type history struct {
	log       *client.Log
	resources func(apiVersion, kind string) string
	last      uint64 // sequence of the last commit that is known of
	pages     map[uint64]*page
	order     []uint64 // of pages, as they were read
	held      int      // events in pages
	// recent are the pages in which causes were found last: what happens
	// together has its causes together.
	recent []*page
}

// page is the events of one commit.
type page struct {
	first  uint64 // the revision that its first event has, or would have
	events []client.LogEvent
}

// Limits of what is read, and of what is remembered.
const (
	maxHeldEvents = 1 << 17
	recentPages   = 4
	maxChunk      = 256 // commits that are read at once
)

func (s *session) history(ctx context.Context) (*history, error) {
	log, err := s.c.OpenLog(ctx)
	if err != nil {
		return nil, err
	}
	h := &history{log: log, resources: s.kinds.ResourceName, pages: map[uint64]*page{}}
	h.last, err = log.Last(ctx)
	return h, err
}

// keep remembers a commit; the oldest that were read are forgotten for it.
func (h *history) keep(sequence uint64, c *coppicev1.Commit) *page {
	if p := h.pages[sequence]; p != nil {
		return p
	}
	p := &page{first: c.GetFirstRevision(), events: client.Events(c, h.resources)}
	h.pages[sequence] = p
	h.order = append(h.order, sequence)
	h.held += len(p.events) + 1
	for h.held > maxHeldEvents && len(h.order) > 1 {
		h.held -= len(h.pages[h.order[0]].events) + 1
		delete(h.pages, h.order[0])
		h.order = h.order[1:]
	}
	h.last = max(h.last, sequence)
	return p
}

func (h *history) page(ctx context.Context, sequence uint64) (*page, error) {
	if p := h.pages[sequence]; p != nil {
		return p, nil
	}
	c, err := h.log.Commit(ctx, sequence)
	if err != nil {
		return nil, err
	}
	return h.keep(sequence, c), nil
}

// find returns the event with a revision, nil if there is none.
func (h *history) find(ctx context.Context, revision uint64) (*client.LogEvent, error) {
	if revision == 0 {
		return nil, nil
	}
	for _, p := range h.recent {
		if e := p.event(revision); e != nil {
			return e, nil
		}
	}
	// The last commit that begins at the revision or before it.
	low, high := uint64(1), h.last
	for low < high {
		middle := high - (high-low)/2
		p, err := h.page(ctx, middle)
		if err != nil {
			return nil, err
		}
		if p.first <= revision {
			low = middle
		} else {
			high = middle - 1
		}
	}
	p, err := h.page(ctx, low)
	if err != nil {
		return nil, err
	}
	if h.recent = append(h.recent, p); len(h.recent) > recentPages {
		h.recent = slices.Delete(h.recent, 0, 1)
	}
	return p.event(revision), nil
}

// event is the event with a revision, nil if it is not on the page.
func (p *page) event(revision uint64) *client.LogEvent {
	i := sort.Search(len(p.events), func(i int) bool { return p.events[i].Revision >= revision })
	if i == len(p.events) || p.events[i].Revision != revision {
		return nil
	}
	return &p.events[i]
}

// tail returns the last events that match, oldest first: at most so many, from
// at most so many commits. complete says that there are no others before them.
func (h *history) tail(ctx context.Context, events, commits int, match func(*client.LogEvent) bool) (found []client.LogEvent, complete bool, err error) {
	high, chunk := h.last, uint64(4)
	for high > 0 && commits > 0 {
		low := high - min(high, chunk, uint64(commits)) + 1
		pages, err := h.chunk(ctx, low, high)
		if err != nil {
			return nil, false, err
		}
		for _, p := range slices.Backward(pages) {
			for i := len(p.events) - 1; i >= 0; i-- {
				if !match(&p.events[i]) {
					continue
				}
				if len(found) == events {
					slices.Reverse(found)
					return found, false, nil
				}
				found = append(found, p.events[i])
			}
		}
		commits -= int(high - low + 1)
		high = low - 1
		chunk = min(2*chunk, maxChunk)
	}
	slices.Reverse(found)
	return found, high == 0, nil
}

// chunk reads neighbouring commits at once.
func (h *history) chunk(ctx context.Context, low, high uint64) ([]*page, error) {
	var pages []*page
	for c, err := range h.log.Follow(ctx, low) {
		if err != nil {
			return nil, err
		}
		pages = append(pages, h.keep(low+uint64(len(pages)), c))
		if low+uint64(len(pages)) > high {
			break
		}
	}
	return pages, ctx.Err()
}
