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
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// removal waits until objects are gone, and reports progress.
type removal struct {
	*session
	consumers *lookup.Consumers
	remaining []string // uids
	total     int
	more      string // "+" if more objects are deleted than are known
	waiting   string // what the removal waits for
	after     string // ends the errors
	said      string // the last line that was printed
	before    string // the line of the last look
}

// The time between two looks: at least lookEvery, and lookShares times what a look takes.
const (
	lookEvery  = 50 * time.Millisecond
	lookShares = 4
)

// blockersListed is how many blocked objects are named.
const blockersListed = 3

// awaitRemoval waits for the objects with these uids to be gone.
// It prints how many are gone, and what blocks the others.
func (s *session) awaitRemoval(ctx context.Context, uids []string, truncated bool, timeout time.Duration) error {
	return s.awaitGone(ctx, uids, truncated, timeout, "; the deletion goes on without this command")
}

// awaitGone is awaitRemoval. after ends the errors.
func (s *session) awaitGone(ctx context.Context, uids []string, truncated bool, timeout time.Duration, after string) error {
	c := s.Consumers()
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
			r.waiting = "no answer: " + err.Error() // look again
		case errors.Is(err, client.ErrForbidden):
			return fmt.Errorf("cannot wait: %w%s", err, r.after)
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
				return errors.New("interrupted" + r.after)
			}
			return fmt.Errorf("%d of %d are still there after %s%s%s",
				len(r.remaining), r.total, timeout, console.Prefixed(": ", strings.TrimPrefix(r.waiting, "waiting: ")), r.after)
		case <-time.After(max(lookEvery, lookShares*s.now().Sub(start))):
		}
	}
}

// look finds out which objects remain, and what blocks them.
func (r *removal) look(ctx context.Context) error {
	var there []string
	var blocked, inside []*coppicev1.GraphNode // by external finalizers or agents; by Coppice's own work
	err := r.UIDs(ctx, r.remaining, func(n *coppicev1.GraphNode) {
		there = append(there, tree.UIDOf(n))
		switch {
		case n.GetObject().GetMetadata().GetDeletionTimestamp() == nil:
		case lookup.External(n):
			blocked = append(blocked, n)
		default:
			inside = append(inside, n)
		}
	})
	if err != nil {
		return err
	}
	r.remaining, r.waiting = there, ""
	if len(blocked) == 0 {
		blocked = inside
	}
	if len(blocked) == 0 {
		return nil
	}
	slices.SortFunc(blocked, func(a, b *coppicev1.GraphNode) int { return cmp.Compare(tree.KeyOfNode(a), tree.KeyOfNode(b)) })
	var said []string
	listed := blocked[:min(len(blocked), blockersListed)]
	r.consumers.Read(ctx, listed...)
	for _, n := range listed {
		said = append(said, strings.TrimSpace(tree.KeyOfNode(n)+" "+r.consumers.BlockedBy(ctx, n)))
	}
	r.waiting = "waiting: " + strings.Join(said, ", ")
	if more := len(blocked) - len(said); more > 0 {
		r.waiting += fmt.Sprintf(" and %d more", more)
	}
	return nil
}

// say prints the progress. On a terminal it rewrites one line each time. Elsewhere it
// prints a line only if two looks in a row agree, so that output has no states that
// lasted for a moment.
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
