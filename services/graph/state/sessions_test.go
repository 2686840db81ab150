package state_test

import (
	"maps"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// Import sessions that were not closed are forgotten once they have ended, by the next
// commit of an import; one of another sort, and a session that is still open, change
// nothing.
func TestAbandonedSessions(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	idle := r.Settings().SessionIdle
	has := func(when string, want map[string]lifecycle.Time) {
		t.Helper()
		s := r.Snapshot()
		defer s.Close()
		if got := s.Sessions(); !maps.Equal(got, want) {
			t.Errorf("%s: there are the sessions %v, want %v", when, got, want)
		}
	}
	began := r.Clock
	r.Must(r.Importation("pods/a", "abandoned", nil), r.Importation("pods/b", "also", nil))
	r.Clock = began.Add(time.Second)
	r.Must(r.Importation("pods/c", "open", nil))
	r.Clock = began.Add(idle)
	r.Create("pods/d", nil)
	has("without another import", map[string]lifecycle.Time{"abandoned": began, "also": began, "open": began.Add(time.Second)})
	r.Must(r.Importation("pods/e", "another", nil))
	has("after another import", map[string]lifecycle.Time{"open": began.Add(time.Second), "another": r.Clock})
	r.Reopen()
	r.Clock = r.Clock.Add(2 * idle)
	r.CloseSession("another")
	has("at last", map[string]lifecycle.Time{})
}
