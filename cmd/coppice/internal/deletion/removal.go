package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// removal waits until objects are gone, and reports progress.
type removal struct {
	*cli.Session
	consumers *lookup.Consumers
	remaining []string // uids
	total     int
	more      string // "+" if more objects are deleted than are known
	waiting   string // what the removal waits for
	deletes   bool   // this command deletes the objects
	said      string // the last line that was printed
	before    string // the line of the last look
}

// blockersListed is how many blocked objects are named.
const blockersListed = 3

// awaitRemoval waits for the objects with these uids, which this command deletes, to be gone.
// It prints how many are gone, and what blocks the others.
func awaitRemoval(ctx context.Context, s *cli.Session, uids []string, truncated bool, timeout time.Duration) error {
	r := &removal{Session: s, remaining: uids, deletes: true}
	if truncated {
		r.more = "+"
	}
	return r.await(ctx, timeout)
}

// Await waits for the objects with these uids to be gone, which this command does not delete. A timeout of 0 is none.
func Await(ctx context.Context, s *cli.Session, uids []string, timeout time.Duration) error {
	return (&removal{Session: s, remaining: uids}).await(ctx, timeout)
}

// await waits for the objects to be gone. A timeout of 0 is none.
func (r *removal) await(ctx context.Context, timeout time.Duration) error {
	r.consumers, r.total = r.Consumers(), len(r.remaining)
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for {
		start := r.Clock()
		err := r.look(limited)
		switch {
		case err == nil && len(r.remaining) == 0:
			return r.say(true)
		case err == nil, limited.Err() != nil:
		case rpc.Retryable(err):
			r.waiting = "no answer: " + err.Error() // look again
		case errors.Is(err, client.ErrForbidden):
			return fmt.Errorf("cannot wait: %w%s", err, r.after())
		default:
			return err
		}
		if err := r.say(false); err != nil {
			return err
		}
		select {
		case <-limited.Done():
			r.newline()
			return r.ended(ctx, timeout)
		case <-r.NextLook(start):
		}
	}
}

// ended is the error of a command that was interrupted, as ctx says, or whose timeout has passed.
func (r *removal) ended(ctx context.Context, timeout time.Duration) error {
	if ctx.Err() != nil {
		return errors.New("interrupted" + r.after())
	}
	are := "are"
	if len(r.remaining) == 1 {
		are = "is"
	}
	return fmt.Errorf("%d of %d %s still there after %s%s%s",
		len(r.remaining), r.total, are, timeout, terminal.Prefixed(": ", strings.TrimPrefix(r.waiting, "waiting: ")), r.after())
}

// after ends the errors: what happens without this command.
func (r *removal) after() string {
	if r.deletes {
		return "; the deletion goes on without this command"
	}
	return ""
}

// look finds out which objects remain, and why. While a deletion goes on, it names the objects that wait for a program
// outside of Coppice, or if there are none, those that wait for Coppice itself. Await also names those that are not being deleted.
func (r *removal) look(ctx context.Context) error {
	var there []*coppicev1.GraphNode
	if err := r.UIDs(ctx, r.remaining, func(n *coppicev1.GraphNode) { there = append(there, n) }); err != nil {
		return err
	}
	slices.SortFunc(there, func(a, b *coppicev1.GraphNode) int { return cmp.Compare(tree.KeyOfNode(a), tree.KeyOfNode(b)) })
	r.remaining, r.waiting = nil, ""
	var unmarked, outside, inside []*coppicev1.GraphNode // outside: waiting for external finalizers or agents
	for _, n := range there {
		r.remaining = append(r.remaining, tree.UIDOf(n))
		switch {
		case n.GetObject().GetMetadata().GetDeletionTimestamp() == nil:
			unmarked = append(unmarked, n)
		case lookup.External(n):
			outside = append(outside, n)
		default:
			inside = append(inside, n)
		}
	}
	blocked := outside
	switch {
	case !r.deletes:
		blocked = slices.Concat(unmarked, outside, inside)
	case len(outside) == 0:
		blocked = inside
	}
	if len(blocked) == 0 {
		return nil
	}
	var said []string
	listed := blocked[:min(len(blocked), blockersListed)]
	r.consumers.Read(ctx, listed...)
	for _, n := range listed {
		why := r.consumers.BlockedBy(ctx, n)
		if n.GetObject().GetMetadata().GetDeletionTimestamp() == nil {
			why = "is not being deleted"
		}
		said = append(said, strings.TrimSpace(tree.KeyOfNode(n)+" "+why))
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
	line := fmt.Sprintf("removed %d/%d%s", r.total-len(r.remaining), r.total, r.more) + terminal.Prefixed("; ", terminal.Printable(r.waiting))
	stable := line == r.before
	r.before = line
	if line == r.said || !done && !stable && !r.Terminal {
		return nil
	}
	r.said = line
	if r.Terminal {
		end := ""
		if done {
			end = "\n"
		}
		_, err := fmt.Fprintf(r.Stdout, "\r%s\x1b[K%s", terminal.Fit(line, r.Columns()), end)
		return err
	}
	_, err := fmt.Fprintln(r.Stdout, line)
	return err
}

// newline ends the line that is being rewritten.
func (r *removal) newline() {
	if r.Terminal && r.said != "" {
		_, _ = fmt.Fprintln(r.Stdout)
	}
}
