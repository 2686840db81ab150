package history

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A History keeps at most so many events, and none after Forget.
func TestHistoryKeepsFewEvents(t *testing.T) {
	t.Parallel()
	h, err := Open(t.Context(), &chainLog{last: 500}, lowerKind)
	must.Succeed(t, err)
	h.MaxKept = 20
	realms := 0
	h.OnRealm = func([]byte) { realms++ }
	must.Succeed(t, ReadOn(t.Context(), h.Log, client.LogOptions{FromSequence: 1}, func(c client.LogCommit) error {
		h.Entry(c, time.Time{})
		return nil
	}, func(Gap) error { return nil }))
	if n := len(h.pages); n != 10 || len(h.order) != n {
		t.Errorf("%d commits are kept, in an order of %d", n, len(h.order))
	}
	if realms != 500 {
		t.Errorf("%d commits said which realm they are of", realms)
	}
	_, err = h.Find(t.Context(), 7)
	must.Succeed(t, err)
	h.Forget()
	if len(h.pages)+len(h.order)+len(h.recent)+h.kept != 0 {
		t.Errorf("%d commits are kept after Forget, %d recent", len(h.pages), len(h.recent))
	}
}

// A filter by actor leaves out what followed from commands that cannot be read, and says so.
func TestGrouperUnsure(t *testing.T) {
	t.Parallel()
	for _, actor := range []string{"", "ana", "graph"} {
		g := Grouper{Roots: NewRoots(0), Actor: actor}
		g.Add(9, []client.LogEvent{{Revision: 9, Cause: 3, Actor: "graph", Type: "ObjectDeleted", Reason: reasonWaiting}})
		g.Roots.mu.Lock()
		g.Roots.commands.put(3, &Command{First: client.LogEvent{Revision: 3}, Unreadable: true})
		g.Roots.mu.Unlock()
		rows := len(g.Rows())
		if want := actor == "ana"; g.Unsure != want || (rows == 0) != want {
			t.Errorf("actor %q: %d rows, unsure %t", actor, rows, g.Unsure)
		}
	}
}
