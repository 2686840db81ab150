package cycles_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/cycles"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// B3.9: A warning, which one namespace sees, names a cycle only if all its objects are there.
func TestWarnedPath(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("nodes/node", nil)
	r.Create("pods/a@shop", nil)
	r.Create("pods/b@shop", nil)
	r.Create("pods/c@infra", nil)
	snap := r.Snapshot()
	defer snap.Close()
	for _, c := range []struct {
		cycle []uid.UID
		want  string
	}{
		{[]uid.UID{"a", "b"}, "the path"},
		{[]uid.UID{"node", "a", "b"}, "the path"},
		{[]uid.UID{"a", "c"}, cycles.HiddenPath},
		{[]uid.UID{"a", "node", "c"}, cycles.HiddenPath},
	} {
		var members []uid.UID
		for _, name := range c.cycle {
			members = append(members, uid.MustParse(string(name)))
		}
		if got := cycles.WarnedPath(snap, members, "the path"); got != c.want {
			t.Errorf("the warning of %v says %q, want %q", c.cycle, got, c.want)
		}
	}
}
