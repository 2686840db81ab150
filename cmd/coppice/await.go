package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// removal waits until objects are gone, and says how far it is.
type removal struct {
	*session
	consumers *consumers
	remaining []string // uids
	total     int
	more      string // "+" where more go than are known
	waiting   string // for what
	after     string // what happens after the command gave up
	said      string
	before    string // what the look before would have said
}

// Looking is done this often, and more rarely where a look takes long.
const (
	lookEvery  = 50 * time.Millisecond
	lookShares = 4
)

// blockersListed is how many of those that hold something are named.
const blockersListed = 3

// awaitRemoval waits for the objects with these uids to be gone.
// It prints how many are gone, and what blocks the others.
func (s *session) awaitRemoval(ctx context.Context, uids []string, truncated bool, timeout time.Duration) error {
	return s.awaitGone(ctx, uids, truncated, timeout, "; the deletion goes on without this command")
}

// awaitGone is awaitRemoval. after ends the error of a timeout.
func (s *session) awaitGone(ctx context.Context, uids []string, truncated bool, timeout time.Duration, after string) error {
	c := s.consumers()
	r := &removal{session: s, consumers: c, remaining: uids, total: len(uids), after: after}
	if truncated {
		r.more = "+"
	}
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for {
		start := s.now()
		err := r.look(limited)
		switch {
		case err == nil && len(r.remaining) == 0:
			return r.say(true)
		case err == nil, limited.Err() != nil:
		case rpc.Retryable(err):
			r.waiting = "no answer: " + err.Error() // it goes on all the same
		case errors.Is(err, client.ErrForbidden):
			return fmt.Errorf("the deletion goes on, but this command cannot wait for it: %w", err)
		default:
			return err
		}
		if err := r.say(false); err != nil {
			return err
		}
		select {
		case <-limited.Done():
			r.newline()
			if ctx.Err() != nil {
				return errors.New("interrupted; the deletion goes on")
			}
			return fmt.Errorf("%d of %d are still there after %s%s%s",
				len(r.remaining), r.total, timeout, console.Prefixed(": ", strings.TrimPrefix(r.waiting, "waiting: ")), r.after)
		case <-time.After(max(lookEvery, lookShares*s.now().Sub(start))):
		}
	}
}

// look finds out what is still there, and what blocks it.
func (r *removal) look(ctx context.Context) error {
	var there []string
	var held, inside []*coppicev1.GraphNode // what others hold, and what the collector is at
	err := r.resolveUIDs(ctx, r.remaining, func(n *coppicev1.GraphNode) {
		there = append(there, tree.UIDOf(n))
		switch {
		case n.GetObject().GetMetadata().GetDeletionTimestamp() == nil:
		case external(n):
			held = append(held, n)
		default:
			inside = append(inside, n)
		}
	})
	if err != nil {
		return err
	}
	r.remaining, r.waiting = there, ""
	if len(held) == 0 {
		held = inside
	}
	if len(held) == 0 {
		return nil
	}
	slices.SortFunc(held, func(a, b *coppicev1.GraphNode) int { return cmp.Compare(tree.KeyOfNode(a), tree.KeyOfNode(b)) })
	var said []string
	for _, n := range held[:min(len(held), blockersListed)] {
		said = append(said, strings.TrimSpace(tree.KeyOfNode(n)+" "+r.consumers.held(ctx, n)))
	}
	r.waiting = "waiting: " + strings.Join(said, ", ")
	if more := len(held) - len(said); more > 0 {
		r.waiting += fmt.Sprintf(" and %d more", more)
	}
	return nil
}

// say tells how far it is: on a terminal always, on one line; elsewhere only
// what held for two looks, so that nobody has to read what was over at once.
func (r *removal) say(done bool) error {
	line := fmt.Sprintf("removed %d/%d%s", r.total-len(r.remaining), r.total, r.more) + console.Prefixed("; ", console.Printable(r.waiting))
	stable := line == r.before
	r.before = line
	if line == r.said || !done && !stable && !r.terminal {
		return nil
	}
	r.said = line
	if r.terminal {
		end := ""
		if done {
			end = "\n"
		}
		_, err := fmt.Fprintf(r.stdout, "\r%s\x1b[K%s", console.Fit(line, r.columns()), end)
		return err
	}
	_, err := fmt.Fprintln(r.stdout, line)
	return err
}

// newline ends the line that is being rewritten.
func (r *removal) newline() {
	if r.terminal && r.said != "" {
		_, _ = fmt.Fprintln(r.stdout)
	}
}
