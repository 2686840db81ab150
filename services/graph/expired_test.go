package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	archivedlog "github.com/coppice-gc/coppice/services/graph/wholelog"
)

// A reader of commits that are neither in the log nor in the archive any more gets Expired, with the
// oldest revision that can be read. From that revision on it reads.
func TestPrunedCommitsAreExpired(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two", "three")
	a.snapshot()
	a.truncate(1)
	a.with(a.dir, nil, func() {
		log := a.as(bus.RoleReader).Log()
		read := func(of client.LogOption) (c client.LogCommit, err error) {
			for c, err := range log.Read(a.Ctx, of, client.Limit(1)) {
				return c, err
			}
			return c, errors.New("there is none")
		}
		_, first, err := a.log().Last(a.Ctx)
		must.Succeed(t, err)
		oldest, err := read(client.FromSequence(first))
		must.Succeed(t, err)
		for _, of := range []client.LogOption{client.FromRevision(1), client.FromSequence(1)} {
			_, err := read(of)
			if !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), fmt.Sprint(oldest.GetFirstRevision())) {
				t.Errorf("%T: %v; the oldest revision is %d", of, err, oldest.GetFirstRevision())
			}
		}
		if c, err := read(client.FromRevision(oldest.GetFirstRevision())); err != nil || c.Sequence != oldest.Sequence {
			t.Errorf("the oldest revision: commit %d, %v", c.Sequence, err)
		}
	})
}

// A segment that is missing within the archive is named with its commits and revisions, wherever a reader begins before
// the segments behind it.
func TestDeletedSegmentIsNamed(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	a.snapshot()
	a.segments()
	a.cut(1)
	segments := a.entries(archive.Segment)
	read := func(ctx context.Context, of ...client.LogOption) (commits []client.LogCommit, err error) {
		log := a.as(bus.RoleReader).Log()
		for c, err := range log.Read(ctx, of...) {
			if err != nil {
				return commits, err
			}
			commits = append(commits, c)
		}
		return commits, nil
	}
	var all []client.LogCommit
	a.with(a.dir, nil, func() {
		var err error
		if all, err = read(a.Ctx, client.FromSequence(1)); err != nil || len(all) < 9 {
			t.Fatalf("%d commits, %v", len(all), err)
		}
	})
	a.remove(segments[1])
	want := fmt.Sprintf("commits 4 to 6 with the revisions %d to %d are neither", all[3].GetFirstRevision(), all[6].GetFirstRevision()-1)
	a.with(a.dir, nil, func() {
		for _, of := range []client.LogOption{
			client.FromSequence(1), client.FromSequence(all[4].Sequence), client.FromRevision(1), client.FromRevision(all[4].GetFirstRevision()),
		} {
			if _, err := read(a.Ctx, of); !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), want) {
				t.Errorf("%T %v: %v; want %q", of, of, err, want)
			}
		}
		behind, err := read(a.Ctx, client.FromRevision(all[6].GetFirstRevision()))
		if err != nil || len(behind) < len(all)-6 || behind[0].Sequence != all[6].Sequence {
			t.Errorf("behind the gap: %d commits, %v", len(behind), err)
		}
	})
	// What precedes the gap cannot be read either.
	a.store = &archivetest.Hooked{Store: a.store, Before: archivetest.Unreadable(segments[0])}
	want = fmt.Sprintf("commits 4 to 6 with revisions before %d are neither", all[6].GetFirstRevision())
	a.with(a.dir, nil, func() {
		if _, err := read(a.Ctx, client.FromSequence(1)); !errors.Is(err, client.ErrExpired) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		for _, c := range all[6:9] {
			for _, from := range []client.LogOption{client.FromSequence(c.Sequence), client.FromRevision(c.GetFirstRevision())} {
				if got, err := read(a.Ctx, from, client.Limit(1)); err != nil || len(got) != 1 || got[0].Sequence != c.Sequence {
					t.Errorf("%v: %v, %v; want the commit at %d", from, got, err, c.Sequence)
				}
			}
		}
	})
	// Reads behind the gap do not even open it: it may hang.
	ctx := testkit.Context(t)
	opened := 0
	store := &archivetest.Hooked{Store: a.store, Before: func(_ context.Context, c archivetest.Call) error {
		if c.Op == archivetest.Open && c.Name == segments[0] {
			opened++
		}
		return nil
	}}
	log := archivedlog.New(ctx, a.log(), store, [16]byte{})
	for _, c := range all[6:9] {
		found := uint64(0)
		_, err := log.Read(ctx, c.Sequence, 1, 1<<20, func(m eventlog.Message) error {
			found = m.Position
			return nil
		})
		sought, failed := log.Seek(ctx, c.GetFirstRevision())
		if _, missing := log.Get(ctx, c.Sequence); found != c.Sequence || sought != c.Sequence || errors.Join(err, failed, missing) != nil {
			t.Errorf("sequence %d: read %d, sought %d, %v", c.Sequence, found, sought, errors.Join(err, failed, missing))
		}
	}
	if opened > 0 {
		t.Errorf("the segment before the gap was opened %d times", opened)
	}
}
