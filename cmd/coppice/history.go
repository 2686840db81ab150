package main

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// history reads the event log backwards: the last events, and by its revision
// any event that caused one of them.
type history struct {
	log       client.LogClient
	resources func(apiVersion, kind string) string
	last      uint64 // sequence of the last commit that is known of
	pages     map[uint64]*page
	order     []uint64 // of pages, as they were read
	held      int      // events in pages
	// recent are the pages in which causes were found last: what happens
	// together has its causes together.
	recent []*page
	// skipped are the sequences of messages that are no commits, as they were read,
	// at most maxSkipped.
	skipped []uint64
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
	maxSkipped    = 100
)

func (s *session) history(ctx context.Context) (*history, error) {
	h := &history{log: s.c.Log(), resources: s.kinds.ResourceName, pages: map[uint64]*page{}}
	var err error
	h.last, err = h.log.Last(ctx)
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
	var p *page
	for c, err := range h.log.Read(ctx, client.FromRevision(revision), client.Limit(1)) {
		if err != nil {
			return nil, err
		}
		p = h.keep(c.Sequence, c.Commit)
	}
	if p == nil {
		return nil, ctx.Err()
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
// at most so many commits. complete says that there are no others before them. about is
// what commits have to mention that have such events.
func (h *history) tail(ctx context.Context, events, commits int, about client.LogOptions, match func(*client.LogEvent) bool) (found []client.LogEvent, complete bool, err error) {
	high, chunk, most := h.last, uint64(4), uint64(maxChunk)
	if len(about.UIDs) > 0 || about.Name != "" { // most commits do not even come here
		chunk, most = 4*maxChunk, 64*maxChunk
	}
	for high > 0 && commits > 0 {
		low := high - min(high, chunk, uint64(commits)) + 1
		about.FromSequence, about.ToSequence = low, high
		matching, err := h.chunk(ctx, about, match)
		if err != nil {
			return nil, false, err
		}
		for _, e := range slices.Backward(matching) {
			if len(found) == events {
				slices.Reverse(found)
				return found, false, nil
			}
			found = append(found, e)
		}
		commits -= int(high - low + 1)
		high = low - 1
		chunk = min(2*chunk, most)
	}
	slices.Reverse(found)
	return found, high == 0, nil
}

// chunk returns the events of some commits that match, and skipped messages that match.
func (h *history) chunk(ctx context.Context, of client.LogOptions, match func(*client.LogEvent) bool) (matching []client.LogEvent, err error) {
	of.Skipped = true
	var before time.Time // when the last commit was made
	for c, err := range h.log.Read(ctx, of) {
		if err != nil {
			return nil, err
		}
		if c.Commit == nil {
			if e := h.skip(c, before); match(&e) {
				matching = append(matching, e)
			}
			continue
		}
		before = time.UnixMicro(c.GetTime()).UTC()
		p := h.keep(c.Sequence, c.Commit)
		for i := range p.events {
			if match(&p.events[i]) {
				matching = append(matching, p.events[i])
			}
		}
	}
	return matching, ctx.Err()
}

// messageSkipped is the type of the entry for a message in the log that is no commit
// of the realm, which graph services skip. It names the log and the sequence, and has
// the time of the commit before, if that is known.
const messageSkipped = "MessageSkipped"

// skip remembers a skipped message, and returns the entry for it.
func (h *history) skip(c client.LogCommit, before time.Time) client.LogEvent {
	if len(h.skipped) < maxSkipped && !slices.Contains(h.skipped, c.Sequence) {
		h.skipped = append(h.skipped, c.Sequence)
	}
	h.last = max(h.last, c.Sequence)
	return client.LogEvent{Type: messageSkipped, Time: before, Resource: "log", Name: strconv.FormatUint(c.Sequence, 10), Detail: c.Skipped}
}

// ranges spells ascending numbers: "5, 7-9".
func ranges(list []uint64) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, list[i])
		if j > i {
			fmt.Fprintf(&b, "-%d", list[j])
		}
		i = j + 1
	}
	return b.String()
}
