package graph_test

import (
	"bytes"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A reader of the log that has listed the segments reads all commits right after segments were merged, or pruned behind
// which it reads, although the segments of its list are gone.
func TestReadAfterSegmentsAreGone(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
	a.segments()
	a.truncate(1)
	a.with(a.dir, nil, func() {
		log := a.as(bus.RoleReader).Log()
		id, _ := a.at()
		list := func() []archive.Item { return a.items(id) }
		reads := func(from uint64) {
			t.Helper()
			next := from
			for c, err := range log.Read(a.Ctx, client.FromSequence(from)) {
				if err != nil || c.GetSequence() != next {
					t.Fatalf("from commit %d on: commit %d is %d, %v", from, next, c.GetSequence(), err)
				}
				next++
			}
			if last := list()[len(list())-1].Last; next <= last {
				t.Fatalf("from commit %d on: %d commits are read, want %d", from, next-from, last-from+1)
			}
		}
		gone := func(s archive.Item) {
			a.remove(s.Entry.Name)
		}
		first := list()[0].First
		reads(first)
		parts := list()[:2]
		a.merge(parts)
		gone(parts[0])
		gone(parts[1])
		reads(first)
		oldest, second := list()[0], list()[1]
		gone(oldest)
		reads(second.First)
	})
}

// merge puts the commits of segments as one into the archive.
func (a *archived) merge(parts []archive.Item) {
	a.Helper()
	var b bytes.Buffer
	w, err := segment.NewWriter(&b)
	must.Succeed(a, err)
	for _, p := range parts {
		in, err := a.store.Open(a.Ctx, p.Entry.Name, 0, p.Entry.Size)
		must.Succeed(a, err)
		for c, err := range segment.NewScanner(in).Commits() {
			if err == nil {
				err = w.Add(c.Position, c.Message)
			}
			must.Succeed(a, err)
		}
		_ = in.Close()
	}
	info, err := w.Close()
	must.Succeed(a, err)
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}
	must.Succeed(a, a.store.Put(a.Ctx, name.String(), &b, info.Size))
}
