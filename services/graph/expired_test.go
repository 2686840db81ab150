package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// A reader of commits that are neither in the log nor in the archive any more gets Expired, with the
// oldest revision that can be read. From that revision on it reads.
func TestPrunedCommitsAreExpired(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two", "three")
	a.snapshot()
	a.truncate(1)
	a.with(a.dir, nil, func(ctx context.Context) {
		log := client.New(testkit.Conn(t, a.n, bus.RoleReader), client.WithActor(bus.RoleReader)).Log()
		read := func(of client.LogOption) (c client.LogCommit, err error) {
			for c, err := range log.Read(ctx, of, client.Limit(1)) {
				return c, err
			}
			return c, errors.New("there is none")
		}
		_, first, err := a.log().Last(ctx)
		if err != nil {
			t.Fatal(err)
		}
		oldest, err := read(client.FromSequence(first))
		if err != nil {
			t.Fatal(err)
		}
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
