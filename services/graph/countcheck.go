package graph

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// countCheck compares the number of messages that each NATS server of a cluster has of the log with what it
// must have. copyCheck reads all copies, which takes long; countCheck notices within a minute that a server
// has lost messages. It does not notice that messages have changed.
type countCheck struct {
	r        *following
	counters map[string]*eventlog.CopyCounter // by the names of the servers
	turn     int
	next     time.Time // when a counter may be opened, after NATS drew other servers
	short    shortages
}

func newCountCheck(r *following) *countCheck {
	return &countCheck{r: r, counters: map[string]*eventlog.CopyCounter{}, short: shortages{}}
}

// step compares one server, and returns damage if it has lacked messages for copyStuck. e is what the
// leader has reported just now, and begins the first sequence that the log must have.
func (c *countCheck) step(ctx context.Context, e *eventlog.Extent, begins uint64) (server string, damage error) {
	c.short.keep(e.Current) // another server is catching up
	if len(e.Current) < 2 {
		return "", nil
	}
	server = e.Current[c.turn%len(e.Current)]
	c.turn++
	counter := c.counter(ctx, server)
	if counter == nil {
		return server, nil
	}
	first, messages, err := counter.Count(ctx)
	if err != nil {
		counter.Close(ctx)
		delete(c.counters, server)
		return server, nil //nolint:nilerr // NATS has deleted the consumer, or the server is away: another is opened later
	}
	return server, c.short.lacks(server, e, begins, first, messages, time.Now())
}

// counter returns the counter of a server, nil if NATS drew others.
func (c *countCheck) counter(ctx context.Context, server string) *eventlog.CopyCounter {
	if counter := c.counters[server]; counter != nil || time.Now().Before(c.next) {
		return counter
	}
	for range openAttempts {
		counter, err := c.r.events.OpenCounter(ctx)
		if err != nil {
			break
		}
		if c.counters[counter.Server] != nil {
			counter.Close(ctx)
			continue
		}
		c.counters[counter.Server] = counter
		if counter.Server == server {
			return counter
		}
	}
	c.next = time.Now().Add(c.r.c.CheckLog)
	return nil
}

func (c *countCheck) close(ctx context.Context) {
	for _, counter := range c.counters {
		counter.Close(ctx)
	}
}

// shortages are the servers whose copies have too few messages, by their names.
type shortages map[string]shortage

type shortage struct {
	since time.Time
	least uint64 // the smallest number of messages that were missing since then
	named bool
}

// lacks returns damage if the copy of a server has had too few messages for copyStuck. The extent is older than
// the figures of the copy, so that messages which are appended meanwhile are not missing.
func (s shortages) lacks(server string, e *eventlog.Extent, begins, first, messages uint64, now time.Time) error {
	var lacks uint64
	if first > begins {
		lacks = first - begins
	}
	if want := e.Last + 1 - min(first, e.Last+1); want > e.Gaps+messages { // gaps of the leader are reported as such
		lacks += want - e.Gaps - messages
	}
	if lacks == 0 {
		delete(s, server)
		return nil
	}
	is, ok := s[server]
	if !ok {
		is = shortage{since: now, least: lacks}
	}
	is.least = min(is.least, lacks)
	is.named = now.Sub(is.since) >= copyStuck
	s[server] = is
	if !is.named {
		return nil
	}
	return fmt.Errorf("the copy of the NATS server %s lacks messages, %d at least: it has %d from sequence %d on, and the log has sequences %d to %d",
		server, is.least, messages, first, begins, e.Last)
}

// keep removes all servers but these.
func (s shortages) keep(servers []string) {
	for server := range s {
		if !slices.Contains(servers, server) {
			delete(s, server)
		}
	}
}

// missed returns the number of messages that the most damaged copy lacks.
func (s shortages) missed() (count uint64) {
	for _, is := range s {
		if is.named {
			count = max(count, is.least)
		}
	}
	return count
}
