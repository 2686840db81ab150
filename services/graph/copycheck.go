package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

// copyCheck reads the copy of the log that each NATS server of a cluster has, one after the
// other. Without it, a damaged copy would be noticed only when its server leads the stream or
// answers a read: perhaps after a good copy was removed.
type copyCheck struct {
	r      *following
	unread []string       // the servers whose copies were not read in this round
	begun  time.Time      // when this round began
	copy   *eventlog.Copy // nil while none is open
	scrub  *replay.Scrub  // of copy
	next   time.Time      // when the next copy may be opened, or the next round begins
	budget int64          // the bytes that may be read
	// damaged has the damage of copies by the names of the servers, as it was found last.
	damaged map[string]*eventlog.BrokenError
	ends    copyEnds
}

const (
	// copyBudget is the number of bytes that are read, on average, in each step.
	copyBudget = 4 << 20
	// openAttempts is the maximum number of consumers that one step creates to get a copy that
	// was not read yet: NATS draws the server.
	openAttempts = 4
	// openPause is the time after which another attempt is made to open a copy: its server was away, or was
	// too slow, or NATS drew other servers.
	openPause = 2 * time.Minute
	// copyStuck is the time after which a copy is damaged that still ends at the same sequence, while the log has more.
	copyStuck = 30 * time.Second
)

// missed returns the number of messages that the most damaged copy lacks.
func (c *copyCheck) missed() (count uint64) {
	for _, d := range c.damaged {
		count = max(count, d.Last+1-d.Position)
	}
	return count
}

// step reads a part of a copy. It returns the damage of a copy when it finds it. Other errors
// are not returned: the server is away, and is read later.
func (c *copyCheck) step(ctx context.Context) *eventlog.BrokenError {
	if c.budget = min(c.budget+copyBudget, copyBudget); time.Now().Before(c.next) || c.budget <= 0 || !c.open(ctx) {
		return nil
	}
	before := c.scrub.Bytes()
	done, err := c.scrub.Step(ctx, c.r.state.Checkpoint().GetPosition())
	c.budget -= c.scrub.Bytes() - before
	if err == nil && !done {
		return nil
	}
	server, at := c.copy.Server, c.scrub.At()
	c.close(ctx)
	var broken *eventlog.BrokenError
	switch {
	case errors.Is(err, eventlog.ErrBehind):
		if broken = c.ends.stuck(server, at, time.Now()); broken == nil {
			return nil
		}
	case err != nil && !errors.As(err, &broken):
		c.r.log.Info("the copy of a NATS server could not be read to its end; it is read again from its beginning", "server", server, "read_to", at, "error", err)
		c.next = time.Now().Add(min(openPause, c.r.c.ScrubLog))
		return nil
	default:
		delete(c.ends, server)
	}
	if broken != nil {
		if _, first, err := c.r.events.Last(ctx); err != nil || first > broken.Position {
			return nil //nolint:nilerr // the messages were cut meanwhile, or NATS is not there: the copy is read again
		}
		broken = &eventlog.BrokenError{
			Position: broken.Position, Last: max(broken.Last, broken.Position),
			What: fmt.Sprintf("the copy of the NATS server %s lacks messages from there on, up to %d at least: %s", server, max(broken.Last, broken.Position), broken.What),
		}
		c.damaged[server] = broken
	} else {
		delete(c.damaged, server)
	}
	if c.unread = slices.DeleteFunc(c.unread, func(s string) bool { return s == server }); len(c.unread) == 0 {
		c.next = time.Now().Add(c.r.c.ScrubLog)
		if len(c.damaged) > 0 { // to notice when it is cured
			c.next = time.Now().Add(min(c.r.c.ScrubLog, warnAgain))
		}
	}
	return broken
}

// copyEnds are the sequences behind which servers say that their copies have nothing, although the
// log has more.
type copyEnds map[string]copyEnd

type copyEnd struct {
	at    uint64
	since time.Time // when that was seen first
}

// stuck returns damage if a copy still ends at the sequence at which it ended copyStuck ago. A server that lags
// reaches later sequences; one that cannot read a file of its copy always ends at the same one.
func (e copyEnds) stuck(server string, at uint64, now time.Time) *eventlog.BrokenError {
	before, ok := e[server]
	if !ok || before.at != at {
		before = copyEnd{at: at, since: now}
		e[server] = before
	}
	if now.Sub(before.since) < copyStuck {
		return nil
	}
	delete(e, server) // its copy may be made again
	return &eventlog.BrokenError{Position: at + 1, Last: at + 1, What: fmt.Sprintf("for more than %v nothing behind sequence %d is delivered", copyStuck, at)}
}

// open opens the copy of a server that was not read in this round, and reports whether one is
// open.
func (c *copyCheck) open(ctx context.Context) bool {
	if c.copy != nil {
		return true
	}
	names, offline, err := c.r.events.Servers(ctx)
	if err != nil || len(names) == 0 {
		return false
	}
	for range c.attempts(names, offline) {
		from := max(c.r.begins.Load(), 1)
		copy, err := c.r.events.OpenCopy(ctx, from)
		if err != nil {
			break
		}
		if slices.Contains(c.unread, copy.Server) {
			c.copy, c.scrub = copy, replay.ScrubCopy(copy, c.r.events, from)
			return true
		}
		copy.Close(ctx)
	}
	c.next = time.Now().Add(min(openPause, c.r.c.ScrubLog))
	return false
}

// attempts returns the number of consumers that may be created to get the copy of a server that was
// not read in this round: none while those are all offline. They are read when they are back, or in
// the next round. A server that was removed from the cluster is not waited for.
func (c *copyCheck) attempts(names, offline []string) int {
	for _, server := range offline { // it lags when it is back
		delete(c.ends, server)
	}
	c.unread = slices.DeleteFunc(c.unread, func(s string) bool { return !slices.Contains(names, s) })
	wanted := func(s string) bool { return !slices.Contains(offline, s) }
	if !slices.ContainsFunc(c.unread, wanted) && (len(c.unread) == 0 || time.Since(c.begun) >= c.r.c.ScrubLog) {
		c.unread, c.begun = names, time.Now()
	}
	if !slices.ContainsFunc(c.unread, wanted) {
		return 0
	}
	return openAttempts
}

func (c *copyCheck) close(ctx context.Context) {
	if c.copy != nil {
		c.copy.Close(ctx)
		c.copy, c.scrub = nil, nil
	}
}
