package graph_test

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/past"
)

// readLog returns the sequences of the commits that a client reads, and the error with which that ends.
func (a *archived) readLog(opts ...client.LogOption) (got string) {
	operator := a.as(bus.RoleOperator)
	for c, err := range operator.Log().Read(a.Ctx, opts...) {
		if err != nil {
			return got + err.Error()
		}
		got += fmt.Sprintf("%d ", c.GetSequence())
	}
	return got
}

// What a client reads first of a log whose archive has damaged segments, in each place where they are found, is what it reads
// later: commits are neither left out without an error, nor are more missing than the segments had.
func TestDamagedSegments(t *testing.T) {
	t.Parallel()
	holed := func(positions ...uint64) func(*archived) { return func(a *archived) { a.holed(positions...) } }
	for name, c := range map[string]struct {
		lose    func(*archived) // commits of the stream
		gone    int             // the segments before are deleted
		damaged []int           // segments
		from    client.LogOption
		want    string
	}{
		"two in a row": {func(a *archived) { a.cut(2) }, 0, []int{1, 2}, client.FromSequence(1),
			"commits 4 to 9 with the revisions 28 to 33 are neither in the log nor in the archive: what follows them begins at position 10 of the stream, "},
		"in a hole": {holed(4, 5, 6, 7, 8, 9), 0, []int{1}, client.FromSequence(1),
			"1 2 3 log of realm default: commits 4 to 6 with the revisions 28 to 30 are neither in the log nor in the archive: what follows them begins at position 7 of the stream, "},
		"in a hole, from behind it": {holed(4, 5, 6, 7, 8, 9), 0, []int{1}, client.FromSequence(7), "7 8 9 10 "},
		"before a hole": {func(a *archived) {
			a.holed(13, 14, 15)
			a.truncate(10)
		}, 1, []int{1, 4}, client.FromSequence(13),
			"log of realm default: commits 13 to 15 with the revisions 37 to 39 are neither in the log nor in the archive: what follows them begins at position 16 of the stream, "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchived(t)
			a.creates("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r")
			a.segments()
			a.snapshot()
			segments := a.entries(archive.Segment)
			c.lose(a)
			for _, name := range segments[:c.gone] {
				a.remove(name)
			}
			s, _ := a.past(a.store, past.Limits{})
			for _, i := range c.damaged { // a start is refused while the stream lacks commits that are in such a segment
				a.damage(segments[i])
			}
			for range 2 {
				if got := a.readLog(c.from); !strings.Contains(got, c.want) {
					t.Errorf("read: %s\nwant:  %s", got, c.want)
				}
			}
			s.Stop()
		})
	}
}

// A damaged segment of the log that a realm continues is passed over, also if a client looks for a revision in it.
func TestDamagedSegmentOfOrigin(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	a.segments()
	a.restore(0)
	segments := a.entries(archive.Segment)
	s := a.serve(t.TempDir(), func(c *graph.Config) { c.Archive = a.store })
	a.WaitFor("the log that the realm continues", func() bool { return strings.HasPrefix(a.readLog(client.FromSequence(1)), "1 2 3 4 ") })
	a.damage(segments[1])
	const want = "commits 4 to 6 with the revisions 28 to 30 are neither in the log nor in the archive: what follows them begins at position 7 of the stream, "
	for _, from := range []client.LogOption{client.FromRevision(29), client.FromRevision(29), client.FromSequence(2)} {
		if got := a.readLog(from); !strings.Contains(got, want) {
			t.Errorf("from %v: %s, want %s", from, got, want)
		}
	}
	if got := a.readLog(client.FromSequence(7)); !strings.HasPrefix(got, "7 8 9 10 11 ") {
		t.Errorf("behind it: %s", got)
	}
	s.Stop()
}

// A segment that is read wrongly once, and is undamaged when it is read again, is not said to be damaged: the read is repeated.
func TestSegmentReadWronglyOnce(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	a.segments()
	a.snapshot()
	a.cut(2)
	segment, flips := a.entries(archive.Segment)[1], atomic.Int32{}
	store := &archivetest.Hooked{Store: a.store, Reading: func(c archivetest.Call, in io.ReadCloser) io.ReadCloser {
		if c.Name != segment || c.Offset == 0 || c.Length < 100 || flips.Add(1) > 1 {
			return in
		}
		return io.NopCloser(flip(in, c.Length/2))
	}}
	s, _ := a.past(store, past.Limits{})
	if got := a.readLog(client.FromSequence(1)); !strings.HasPrefix(got, "1 2 3 4 5 6 7 8 9 10 11") {
		t.Errorf("read: %s", got)
	}
	if flips.Load() == 0 {
		t.Error("no block was read wrongly")
	}
	operator := a.as(bus.RoleOperator)
	if warnings, err := operator.Warnings(a.Ctx, ""); err != nil || len(warnings) > 0 {
		t.Errorf("warnings %v, %v", warnings, err)
	}
	s.Stop()
}
