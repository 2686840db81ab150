package history

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/client"
)

// Back reads a log backwards, in parts that become larger. Within a part, commits come in the order of the log.
type Back struct {
	h  *History
	of client.LogOptions
	// low and high are the positions that remain; high is below low if none does.
	low, high   uint64
	chunk, most uint64
}

// The sizes of the parts that Back reads.
const firstPart = 16

// Back returns a reader of the commits from low up to high. of selects commits on the server.
func (h *History) Back(of client.LogOptions, low, high uint64) *Back {
	b := &Back{h: h, of: of, low: max(low, 1), high: high, chunk: firstPart, most: maxChunk}
	if len(of.UIDs) > 0 || of.Name != "" { // the server sends few of the commits
		b.chunk, b.most = 4*firstPart, 64*maxChunk
	}
	return b
}

// Before returns the position before which nothing was read yet; 0 if nothing remains.
func (b *Back) Before() uint64 {
	if b.high < b.low {
		return 0
	}
	return b.high + 1
}

// Entry is what a log has at a position.
type Entry struct {
	Position uint64
	// Time is that of the commit; of a message that was skipped it is that of the commit before, zero if that is not known.
	Time time.Time
	// Page is nil for a message that is no commit of the realm; Skipped then says why it is none.
	Page    *Page
	Skipped string
}

// Next reads the next part, of at most so many positions. It calls visit for each entry, and gap for commits that cannot
// be read, up to the end of the part. It returns the number of positions of the part; 0 if none remained.
func (b *Back) Next(ctx context.Context, most uint64, visit func(Entry), gap func(Gap)) (positions uint64, err error) {
	if b.high < b.low || most == 0 {
		return 0, ctx.Err()
	}
	low := b.high - min(b.high-b.low+1, b.chunk, most) + 1
	of := b.of
	of.FromSequence, of.ToSequence, of.Skipped = low, b.high, true
	lost := false // all of the part
	var before time.Time
	err = ReadOn(ctx, b.h.Log, of, func(c client.LogCommit) error {
		e := b.h.Entry(c, before)
		before = e.Time
		visit(e)
		return nil
	}, func(g Gap) error {
		g.Next = min(g.Next, b.high+1)
		lost = lost || g.From == low && g.Next == b.high+1
		gap(g)
		return nil
	})
	if err != nil {
		return 0, err
	}
	positions = b.high - low + 1
	b.high = low - 1
	b.chunk = min(2*b.chunk, b.most)
	if lost && b.high >= b.low {
		return positions, b.skipLost(ctx, gap)
	}
	return positions, nil
}

// skipLost goes on after the first commits of the log, if all that remain cannot be read either: in one step.
func (b *Back) skipLost(ctx context.Context, gap func(Gap)) error {
	readable := false
	var all Gap
	err := ReadOn(ctx, b.h.Log, client.LogOptions{FromSequence: b.low, ToSequence: b.high, Skipped: true, Limit: 1}, func(client.LogCommit) error {
		readable = true
		return errFound
	}, func(g Gap) error {
		readable = readable || g.From != b.low || g.Next <= b.high
		all = g
		return nil
	})
	if readable || err != nil {
		if err == errFound { //nolint:errorlint // it is returned as it is
			err = nil
		}
		return err
	}
	gap(Gap{From: b.low, Next: b.high + 1, Why: all.Why})
	b.high = b.low - 1
	return nil
}

// Entry keeps what was read of the log. before is the time of the commit before.
func (h *History) Entry(c client.LogCommit, before time.Time) Entry {
	if c.Commit == nil {
		h.Skip(c, before)
		return Entry{Position: c.Sequence, Time: before, Skipped: c.Skipped}
	}
	return Entry{Position: c.Sequence, Time: time.UnixMicro(c.GetTime()).UTC(), Page: h.Keep(c.Sequence, c.Commit)}
}

// PositionOf returns the position of the commit that has the event with a revision. The error is a MissingError if it
// cannot be read.
func (h *History) PositionOf(ctx context.Context, revision uint64) (position uint64, err error) {
	position, _, err = h.readPage(ctx, revision)
	return position, err
}

// TimeAt returns the time of the commit at a position; zero if it cannot be read, or is no commit.
func (h *History) TimeAt(ctx context.Context, position uint64) (at time.Time, err error) {
	if position == 0 {
		return at, nil
	}
	err = ReadOn(ctx, h.Log, client.LogOptions{FromSequence: position, ToSequence: position}, func(c client.LogCommit) error {
		at = time.UnixMicro(c.GetTime()).UTC()
		return nil
	}, func(Gap) error { return nil })
	return at, err
}
